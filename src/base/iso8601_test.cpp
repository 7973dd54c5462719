// SPDX-License-Identifier: Apache-2.0
#include "base/iso8601.h"

#include <gtest/gtest.h>

namespace tb {
namespace {

using Time = std::chrono::system_clock::time_point;

TEST(Iso8601, IsUtc) {
  EXPECT_EQ(iso8601(Time{}), "1970-01-01T00:00:00Z");
  EXPECT_EQ(iso8601(Time{std::chrono::seconds{1709210096}}), "2024-02-29T12:34:56Z");
}

TEST(Iso8601, HasMillisecondsWhereTheyAreAskedFor) {
  EXPECT_EQ(iso8601_ms(Time{}), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(iso8601_ms(Time{std::chrono::milliseconds{1709210096007}}), "2024-02-29T12:34:56.007Z");
  EXPECT_EQ(iso8601_ms(Time{std::chrono::milliseconds{-1}}), "1969-12-31T23:59:59.999Z");
}

}  // namespace
}  // namespace tb
