// SPDX-License-Identifier: Apache-2.0
#include "os/prompt.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <thread>

namespace tb::os {
namespace {

SchedulingAttributes scheduling() {
  SchedulingAttributes how;
  EXPECT_TRUE(get_scheduling(how));
  return how;
}

int status_of_child(bool (*good)()) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(good() ? 0 : 1);
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

// In a thread of its own: it can't be undone.
template <class Work>
void in_thread(Work work) {
  std::thread{work}.join();
}

TEST(RunPromptly, IsForOneThreadAndNotForWhatItStarts) {
  static const SchedulingAttributes usual = scheduling();
  in_thread([] {
    run_promptly();
    const std::uint64_t slice = scheduling().runtime;
    EXPECT_TRUE(slice == 100'000 || slice == usual.runtime) << slice;  // before Linux 6.12
    EXPECT_EQ(scheduling().nice, usual.nice);
    EXPECT_EQ(status_of_child([] { return scheduling().runtime == usual.runtime; }), 0);
    in_thread([] { EXPECT_EQ(scheduling().runtime, usual.runtime); });
  });
  EXPECT_EQ(scheduling().runtime, usual.runtime);
}

TEST(RunPromptly, LeavesWhatAnOperatorHasChosen) {
  in_thread([] {
    sched_param none{};
    ASSERT_EQ(::sched_setscheduler(0, SCHED_BATCH, &none), 0);
    run_promptly();
    EXPECT_EQ(::sched_getscheduler(0), SCHED_BATCH);
  });
}

}  // namespace
}  // namespace tb::os
