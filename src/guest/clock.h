// SPDX-License-Identifier: Apache-2.0
// Time as the guest counts it.
#pragma once

#include <sys/time.h>
#include <time.h>

#include <cstdint>

namespace tb::guest {

inline std::uint64_t now_us() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1000;
}

inline std::uint64_t micros(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1000000 +
         static_cast<std::uint64_t>(time.tv_usec);
}

}  // namespace tb::guest
