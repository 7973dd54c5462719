// SPDX-License-Identifier: Apache-2.0
#include "auth/failures.h"

#include <gtest/gtest.h>

namespace tb::auth {
namespace {

TEST(Failures, ManyOfOneAddressAreTooMany) {
  Failures failures;
  auto now = Failures::Clock::now();
  int early = 0;
  while (!failures.note("a", now) && early < 1000) ++early;
  EXPECT_EQ(early, static_cast<int>(Failures::kBurst));
  EXPECT_FALSE(failures.note("b", now));
  now += std::chrono::seconds{1};
  int later = 0;
  while (!failures.note("a", now) && later < 1000) ++later;
  EXPECT_EQ(later, static_cast<int>(Failures::kPerSecond));
}

TEST(Failures, AMillionAddressesTakeNoMoreRoomThanSome) {
  Failures failures;
  const auto now = Failures::Clock::now();
  for (int i = 0; i < 50'000; ++i) failures.note(std::to_string(i), now);
  EXPECT_LE(failures.addresses(), Failures::kAddresses);
}

}  // namespace
}  // namespace tb::auth
