// SPDX-License-Identifier: Apache-2.0
// What the child of the keeper does between clone3 and the guest program.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "jail/cgroups.h"
#include "jail/wire.h"
#include "os/fd.h"

namespace tb::jail {

struct Mask {
  std::string path;  // relative to the new root
  bool directory = false;
};

// Detached mounts and where each goes, relative to the new root; attached in this order.
using Mounted = std::vector<std::pair<os::Fd, std::string>>;

// Everything that the child needs; made by the keeper beforehand, released with it afterwards.
struct Entry {
  os::Fd root;  // a detached mount
  Mounted mounts;
  Mounted volumes;           // after these, to places that links might lead away from
  std::string attach_point;  // a directory of the host to begin at
  const std::vector<Mask>* masks = nullptr;
  const SandboxCgroup* cgroup = nullptr;
  std::vector<os::Fd> counter_dirs;
  os::Fd disk;
  os::Fd control;  // to the server
  os::Fd keeper;   // to the keeper
  int config = -1;
  int program = -1;
  int waiter = -1;
  int opening = -1;
  std::string hostname;
  Limits limits;
  bool single_id = false;  // rootless: guest and tenant are one
  bool confined = false;   // only some programs can be executed
};

// Runs in the child; ends in the guest program, or reports to the server and exits.
[[noreturn]] void enter(Entry& entry);

// What to hide in /proc on this host.
std::vector<Mask> proc_masks();

}  // namespace tb::jail
