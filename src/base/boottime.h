// SPDX-License-Identifier: Apache-2.0
// The clock of leases: it goes on while the machine is suspended, nobody can set it, and all
// programs of a time namespace agree on it.
#pragma once

#include <time.h>

#include <cstdint>

namespace tb {

// Milliseconds of CLOCK_BOOTTIME.
inline std::uint64_t boottime_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1000000;
}

}  // namespace tb
