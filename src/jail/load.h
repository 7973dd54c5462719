// SPDX-License-Identifier: Apache-2.0
// What a sandbox takes of the machine, read from its cgroups.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "jail/cgroups.h"

namespace tb::jail {

// Without what this host can't tell.
struct CgroupLoad {
  std::optional<std::uint64_t> memory_bytes;  // without pages that are only cached files
  std::optional<std::uint64_t> cpu_us;        // since the sandbox was made
  std::optional<std::uint64_t> processes;
};

CgroupLoad measure(const SandboxCgroup& cgroup);
// Nothing of it would be lost beside its PID 1: no process of a tenant, no file of /dev/shm and no
// shared memory. Not so when this host can't tell.
bool has_only_files(const SandboxCgroup& cgroup, pid_t pid1);
std::optional<std::uint64_t> cpu_time_us(const SandboxCgroup& cgroup);

}  // namespace tb::jail
