// SPDX-License-Identifier: Apache-2.0
// What a sandbox takes of the machine, read from its cgroups.
#pragma once

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
std::optional<std::uint64_t> cpu_time_us(const SandboxCgroup& cgroup);

}  // namespace tb::jail
