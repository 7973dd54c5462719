// SPDX-License-Identifier: Apache-2.0
#include "base/process_stats.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <time.h>
#include <unistd.h>

namespace tb {
namespace {

TEST(ProcessStats, AreThoseOfThisProcess) {
  const ProcessStats stats = read_process_stats();
  const double now = static_cast<double>(::time(nullptr));
  EXPECT_LE(stats.started, now + 2);
  EXPECT_GT(stats.started, now - 24 * 3600);
  EXPECT_GT(stats.resident, 100_KiB);
  EXPECT_LT(stats.resident, stats.virtual_size);
  EXPECT_GT(stats.cpu_seconds, 0);
}

TEST(ProcessStats, StartDoesNotMove) {
  const double first = read_process_stats().started;
  EXPECT_NEAR(read_process_stats().started, first, 0.1);
}

TEST(ProcessStats, CountsOpenFiles) {
  const std::uint64_t before = count_open_files();
  EXPECT_GE(before, 3u);
  const int one = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int two = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(count_open_files(), before + 2);
  ::close(one);
  ::close(two);
  EXPECT_EQ(count_open_files(), before);
  EXPECT_GT(max_open_files(), before);
}

}  // namespace
}  // namespace tb
