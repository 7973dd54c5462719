// SPDX-License-Identifier: Apache-2.0
// Where there are no cgroups (rootless), a process of our own between PID 1 and a command: all that
// the command started stays below it in the tree, however often it forked, so that it can be found
// and ended.
#pragma once

#include <cstdint>
#include <vector>

#include "guest/launch.h"

namespace tb::guest {

struct Minder {
  int pid = -1;
  int reports = -1;  // readable when the command has ended
};

// What it says: first that the program runs or could not be started, then how it ended.
struct MinderReport {
  int pid = 0;  // of the command
  Step failed;
  bool ended = false;
  int status = 0;
  std::uint64_t cpu_us = 0;
  std::uint64_t peak_bytes = 0;
};

// Like launch(), below a minder; returns at once.
Minder launch_minded(const Launch& launch, Step& failed);

// 1: a report. 0: none yet. -1: the minder is gone.
int read_report(int reports, MinderReport& report);

// Everything below it in the tree of processes.
std::vector<int> below(int top);

// Sends a signal to everything below the minder; SIGKILL until nothing is left.
void signal_below(int minder, int number);

// Ends what runs below none of these minders: a command that kills its own sets its children free.
void end_strays(const std::vector<int>& minders);

}  // namespace tb::guest
