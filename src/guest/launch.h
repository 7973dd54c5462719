// SPDX-License-Identifier: Apache-2.0
// From a Start message to a running program: vfork semantics, no copy of PID 1's memory.
#pragma once

#include "guest/wire.h"

namespace tb::guest {

struct Launch {
  const Start* start = nullptr;
  const Config* config = nullptr;
  int input = -1;   // becomes 0
  int output = -1;  // becomes 1
  int error = -1;   // becomes 2
  int script = -1;  // becomes 3: a text too long for an argument
  int cgroup = -1;  // the command's own, or -1
};

struct Launched {
  int pid = -1;
  const char* step = nullptr;  // what failed when pid is -1
  int number = 0;              // its errno
};

// Returns once the program was executed or could not be.
Launched launch(const Launch& launch);

}  // namespace tb::guest
