// SPDX-License-Identifier: Apache-2.0
// File systems by descriptor: made detached, attached later and elsewhere.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "os/fd.h"

namespace tb::os {

using MountOptions = std::vector<std::pair<std::string, std::string>>;  // empty value: a flag

// A new file system of this type, attached nowhere. `attributes`: MOUNT_ATTR_….
Fd make_mount(const std::string& type, const MountOptions& options, unsigned attributes);

// A second, detached view of a directory or file, with these attributes set on it.
Fd clone_mount(int dir, const std::string& path, unsigned attributes);

// Attaches a detached mount at a path relative to `dir`.
void attach_mount(const Fd& mount, int dir, const std::string& path);

}  // namespace tb::os
