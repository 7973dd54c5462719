// SPDX-License-Identifier: Apache-2.0
// One sandbox as the keeper holds it, and how one is made.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>

#include "jail/cgroups.h"
#include "jail/disk.h"
#include "jail/enter.h"
#include "jail/environment.h"
#include "jail/filter.h"
#include "jail/slots.h"
#include "jail/volumes.h"
#include "jail/wire.h"
#include "os/fd.h"

namespace tb::jail {

// What all sandboxes of a keeper are made with.
struct Workshop {
  bool root = true;  // else rootless: one uid, no cgroups, no pool
  std::string state_dir;
  std::unique_ptr<Slots> slots;  // only as root
  std::unique_ptr<CgroupTree> cgroups;
  std::unique_ptr<Disk> disk;
  std::unique_ptr<Volumes> volumes;
  std::map<std::string, std::string> directories;  // of the host: places.h
  std::map<std::string, Environment> environments;
  std::vector<Mask> masks;
  os::Fd program;  // the guest, sealed
  os::Fd waiter;   // what a shell needs that is started ahead, sealed: a library,
  os::Fd opening;  // and a text of bash
  Filters filters;
  // The guest's configurations, sealed: one for each environment, list of programs and mounts.
  std::map<std::string, os::Fd> configs;

  Environment& environment(const std::string& name);
  int config(Environment& environment, const Create& create);
};

// Sets all of it up; throws where a sandbox would be impossible.
Workshop open_workshop(const std::string& state_dir, bool root,
                       std::vector<std::string> directories = {});

struct Jail {
  std::string id;
  std::string environment;
  Limits limits;
  std::vector<std::string> programs;  // confined to these; empty: any
  std::vector<Mount> mounts;
  std::uint32_t slot = 0;
  pid_t pid = -1;
  os::Fd guest;  // to PID 1: the next server's socket goes here; closed, it ends
  SandboxCgroup cgroup;
  os::Fd control;  // the server's end of the first connection; handed over at once
};

// Makes the sandbox and returns while it sets itself up; it tells the server when it is ready, or
// what failed. After an exception nothing is left.
std::unique_ptr<Jail> start_jail(Workshop& workshop, const Create& create,
                                 std::optional<std::uint32_t> wanted_slot);

}  // namespace tb::jail
