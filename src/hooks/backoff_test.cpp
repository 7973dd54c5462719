// SPDX-License-Identifier: Apache-2.0
#include "hooks/backoff.h"

#include <gtest/gtest.h>

namespace tb::hooks {
namespace {

using std::chrono::seconds;
const auto kNone = std::optional<seconds>{};

TEST(Backoff, WaitsLongerEachTimeAndGivesUp) {
  const Schedule usual = usual_schedule();
  Milliseconds before{0};
  for (unsigned failures = 1; failures <= usual.size(); ++failures) {
    const auto delay = delay_after(usual, failures, 0.5, kNone);
    ASSERT_TRUE(delay);
    EXPECT_EQ(*delay, usual[failures - 1]);
    EXPECT_GT(*delay, before);
    before = *delay;
  }
  EXPECT_FALSE(delay_after(usual, 8, 0.5, kNone));
  EXPECT_FALSE(delay_after({}, 1, 0.5, kNone));
}

TEST(Backoff, IsSpreadByATenthToEachSide) {
  EXPECT_EQ(delay_after({100s}, 1, 0, kNone), Milliseconds{90s});
  EXPECT_EQ(delay_after({100s}, 1, 1, kNone), Milliseconds{110s});
}

TEST(Backoff, AReceiverMayAskForMoreButNotForEver) {
  const Schedule usual = usual_schedule();
  EXPECT_EQ(delay_after(usual, 1, 0.5, 60s), Milliseconds{60s});
  EXPECT_EQ(delay_after(usual, 2, 0.5, 1s), Milliseconds{30s});
  EXPECT_EQ(delay_after(usual, 1, 0.5, seconds{1 << 30}), Milliseconds{5h});
  EXPECT_EQ(delay_after({1s}, 1, 0.5, seconds{1 << 30}), Milliseconds{1h});
  EXPECT_FALSE(delay_after({1s}, 2, 0.5, 60s));
}

TEST(Backoff, RetryAfterIsSecondsOrADate) {
  const auto now = std::chrono::system_clock::from_time_t(784111777);
  EXPECT_EQ(parse_retry_after("120", now), 120s);
  EXPECT_EQ(parse_retry_after("0", now), 0s);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:47 GMT", now), 10s);
  EXPECT_EQ(parse_retry_after("Sun, 06 Nov 1994 08:49:17 GMT", now), 0s);
  EXPECT_EQ(parse_retry_after("9999999999999999", now), seconds{1ll << 32});
  EXPECT_GT(parse_retry_after("Fri, 31 Dec 9999 23:59:59 GMT", now), 1h);
  for (const char* bad : {"", "-1", "1.5", "soon", "1 s", "Sun, 06 Nov 1994 08:49:47 GMT x",
                          "99999999999999999999"}) {
    EXPECT_FALSE(parse_retry_after(bad, now)) << bad;
  }
}

}  // namespace
}  // namespace tb::hooks
