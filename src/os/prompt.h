// SPDX-License-Identifier: Apache-2.0
// How soon a thread runs that has something to do.
#pragma once

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace tb::os {

// As the kernel has it; linux/sched/types.h and sched.h exclude each other.
struct SchedulingAttributes {
  std::uint32_t size = 0;
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

// Of this thread. False: errno.
inline bool get_scheduling(SchedulingAttributes& of) {
  return ::syscall(SYS_sched_getattr, 0, &of, sizeof of, 0) == 0;
}

// For a thread whose steps are short and waited for. On a machine where others run, it need not
// wait for the end of their turns: the kernel takes a short slice as the wish to run soon
// (Linux 6.12; older ones ignore it). It gets no more of the processor, and what it starts is as
// before.
inline void run_promptly() {
  constexpr std::uint64_t kSlice = 100'000;   // ns, the shortest there is
  constexpr std::uint64_t kNotInherited = 1;  // SCHED_FLAG_RESET_ON_FORK
  SchedulingAttributes how;
  if (!get_scheduling(how)) return;
  // Not what an operator has chosen. A child would lose a negative nice value, too.
  if (how.policy != SCHED_OTHER || how.nice < 0) return;
  how.size = sizeof how;
  how.runtime = kSlice;
  how.flags |= kNotInherited;
  ::syscall(SYS_sched_setattr, 0, &how, 0);
}

}  // namespace tb::os
