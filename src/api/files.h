// SPDX-License-Identifier: Apache-2.0
// What uploads, downloads and listings have in common.
#pragma once

#include <memory>
#include <string>

#include "api/service.h"
#include "http/range.h"
#include "sandbox/files.h"

namespace tb::api {

inline constexpr const char* kWorkspace = "/workspace";

// The session that a file request names. Throws Refusal 404.
std::shared_ptr<session::Session> session_of(const Service& service, const Call& call,
                                             const std::string& id);

// How long a command may run that names no time; without a session the server's own.
std::chrono::milliseconds command_timeout(const Service& service, const session::Session* session);

// What a request may write into its session.
FileLimits file_limits(const Service& service, const session::Session& session);

// What a workspace may hold.
Bytes workspace_limit(const Service& service, const session::Session& session);

// What a FileError means to a client of the seed dialect.
[[noreturn]] void refuse_file(const sandbox::FileError& error, const std::string& filename);

// What of a file a request wants: ranges are for what has a body.
http::Slice slice_of(const http::Request& request, Bytes size, const std::string& etag);
// As much as was promised, whatever happens to the file meanwhile: one that was cut breaks off.
awaitable<void> send_slice(http::Exchange& exchange, sandbox::OpenFile& file, http::Slice slice);

// MiB, rounded to two places, as the seeds' bodies have it.
double mebibytes(Bytes bytes);

}  // namespace tb::api
