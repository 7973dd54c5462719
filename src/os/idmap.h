// SPDX-License-Identifier: Apache-2.0
// Mounts that show the files of one owner as another's (mount_setattr(2), MOUNT_ATTR_IDMAP).
#pragma once

#include <cstdint>

#include "os/fd.h"

namespace tb::os {

// Files that belong to uid and gid `on_disk` look, and are made, as those of `shown` through this
// mount, which is not attached yet. Every other owner is nobody there, and nobody else can make
// files. Throws SystemError{EINVAL} where the file system can't do that.
void show_owner_as(const Fd& mount, std::uint32_t on_disk, std::uint32_t shown);

}  // namespace tb::os
