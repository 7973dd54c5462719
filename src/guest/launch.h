// SPDX-License-Identifier: Apache-2.0
// From a Start message to a running program. PID 1 never waits for the child: between its change of
// uid and exec(2) the tenant can stop it, or hold the program's file with a lease.
#pragma once

#include <vector>

#include "guest/wire.h"

namespace tb::guest {

struct Launch {
  const Start* start = nullptr;
  const char* program = nullptr;  // absent: argv[0], looked up in the command's PATH
  const Config* config = nullptr;
  int input = -1;           // becomes 0
  int output = -1;          // becomes 1
  int error = -1;           // becomes 2
  std::vector<int> passed;  // become 3 and so on
  int cgroup = -1;          // the command's own, or -1
  bool terminal = false;    // `input` is one, to be the command's own
  bool filtered = true;     // as commands are
  bool followed = false;    // PID 1 wants to hear of its end: following.cpp
};

// A step that failed. The text is a literal: its address means the same in a forked child.
struct Step {
  const char* text = nullptr;
  int number = 0;  // errno
};

struct Launched {
  int pid = -1;
  int status = -1;  // readable: end of file once the program runs, or a Step
  Step failed;      // when pid is -1
};

// Returns at once.
Launched launch(const Launch& launch);

// 1: the program runs. 0: not known yet. -1: `step` says what failed.
int read_status(int status, Step& step);

}  // namespace tb::guest
