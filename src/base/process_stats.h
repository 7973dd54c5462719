// SPDX-License-Identifier: Apache-2.0
// What the kernel knows about this process.
#pragma once

#include <cstdint>

#include "base/units.h"

namespace tb {

struct ProcessStats {
  double started = 0;      // seconds since 1970
  double cpu_seconds = 0;  // user and system
  Bytes resident;
  Bytes virtual_size;
};

// 0 where /proc does not tell.
ProcessStats read_process_stats();
std::uint64_t count_open_files();
std::uint64_t max_open_files();

}  // namespace tb
