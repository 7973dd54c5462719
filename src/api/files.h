// SPDX-License-Identifier: Apache-2.0
// What uploads, downloads and listings have in common.
#pragma once

#include <memory>
#include <string>

#include "api/service.h"
#include "sandbox/files.h"

namespace tb::api {

inline constexpr const char* kWorkspace = "/workspace";

// The session that a file request names. Throws Refusal 404.
std::shared_ptr<session::Session> session_of(Service& service, const std::string& id);

// What a FileError means to a client of the seed dialect.
[[noreturn]] void refuse_file(const sandbox::FileError& error, const std::string& filename);

// MiB, rounded to two places, as the seeds' bodies have it.
double mebibytes(Bytes bytes);

}  // namespace tb::api
