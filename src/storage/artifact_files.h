// SPDX-License-Identifier: Apache-2.0
// Artifacts on disk, and what a crash may have left of them. All of it blocks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "os/fd.h"
#include "storage/artifacts.h"

namespace tb::storage {

// As session ids are: letters, digits and dashes. It becomes part of a path.
bool is_session_name(std::string_view name);

// With its directory. Nothing else may have the name.
os::Fd create_artifact_file(const std::string& path);
void write_bytes(const os::Fd& file, std::string_view bytes);
// Bytes on disk first, then the description: from that moment on it is there.
void finish_artifact_file(const os::Fd& file, const std::string& path, const Artifact& artifact);
// The description first.
void remove_artifact_file(const std::string& path);

// All whole ones of a directory; everything else in it is removed.
std::vector<Artifact> load_artifact_files(const std::string& dir, const std::string& session);

}  // namespace tb::storage
