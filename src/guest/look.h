// SPDX-License-Identifier: Apache-2.0
// What /proc tells of another process.
#pragma once

#include <cstdint>
#include <string>

namespace tb::guest {

struct Look {
  char state = 0;           // as in /proc/PID/stat: R, S, D, T, t, Z; 0: there is no such process
  std::uint64_t ticks = 0;  // of processor time, 10 ms each

  bool stopped() const { return state == 'T' || state == 't'; }
  bool wants_to_run() const { return state == 'R' || state == 'D'; }
};

Look look_at(int pid);

// The beginning of its command line; a copy of a process has the same.
std::string words_of(int pid);

}  // namespace tb::guest
