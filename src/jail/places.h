// SPDX-License-Identifier: Apache-2.0
// Where volumes and directories of the host are mounted in a sandbox. The image and the tenant may
// have put links anywhere: none is followed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "jail/disk.h"
#include "jail/enter.h"
#include "jail/environment.h"
#include "jail/volumes.h"
#include "jail/wire.h"
#include "os/fd.h"

namespace tb::jail {

// Below `dir`, through no link and no mount of another place. Throws SystemError.
os::Fd open_beneath(const os::Fd& dir, const std::string& path);

// Makes what is missing of a path below `dir`, one part at a time, and gives what it made to
// `owner`, if there is one. Throws Error{invalid} when a part is there and is no directory.
void make_directories(const os::Fd& dir, const std::string& path,
                      std::optional<std::uint32_t> owner);

// By the names that were given: where they led when the keeper started.
using Directories = std::map<std::string, std::string>;
Directories find_directories(const std::vector<std::string>& names);

// What mounts are made from.
struct MountSources {
  Disk& disk;
  const Volumes& volumes;
  const Directories& directories;  // of the host, that may be named
  std::string state_dir;           // and never this
};

// The layer that has their places in the root; empty: none is needed. Makes those in the sandbox's
// own tree too. Throws Error{invalid} when the image has something else there.
os::Fd make_places(const MountSources& sources, const Environment& environment, const os::Fd& tree,
                   const Create& create, std::uint32_t tenant);

// The mounts themselves, detached, for the child to attach.
Mounted open_mounts(const MountSources& sources, const Create& create, std::uint32_t tenant);

}  // namespace tb::jail
