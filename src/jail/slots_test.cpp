// SPDX-License-Identifier: Apache-2.0
#include "jail/slots.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "os/fault.h"
#include "os/test_dir.h"

namespace tb::jail {
namespace {

TEST(Slots, TwoKeepersNeverShareOne) {
  os::TestDir dir;
  Slots first{dir / "run/slots"};
  Slots second{dir / "run/slots"};
  std::set<std::uint32_t> all;
  for (int i = 0; i < 200; ++i) {
    EXPECT_TRUE(all.insert(first.claim()).second);
    EXPECT_TRUE(all.insert(second.claim()).second);
  }
  EXPECT_EQ(all.size(), 400u);
}

TEST(Slots, OneKeeperNeverHandsOutTheSameTwice) {
  os::TestDir dir;
  Slots slots{dir / "slots"};
  std::set<std::uint32_t> all;
  for (int i = 0; i < 500; ++i) EXPECT_TRUE(all.insert(slots.claim(3)).second);
}

TEST(Slots, TheWantedOneIsGivenWhenItIsFree) {
  os::TestDir dir;
  Slots first{dir / "slots"};
  Slots second{dir / "slots"};
  EXPECT_EQ(first.claim(4711), 4711u);
  EXPECT_NE(second.claim(4711), 4711u);
  EXPECT_NE(first.claim(4711), 4711u);
  first.release(4711);
  EXPECT_EQ(second.claim(4711), 4711u);
}

TEST(Slots, AWantedOneThatCannotBeIsNotGiven) {
  os::TestDir dir;
  Slots slots{dir / "slots"};
  EXPECT_EQ(slots.claim(kSlots - 1), kSlots - 1);
  EXPECT_LT(slots.claim(kSlots), kSlots);
  EXPECT_LT(slots.claim(0xffffffff), kSlots);
}

TEST(Slots, WhatIsReleasedIsFreeForOthers) {
  os::TestDir dir;
  Slots first{dir / "slots"};
  Slots second{dir / "slots"};
  const std::uint32_t slot = first.claim();
  first.release(slot);
  first.release(slot);
  EXPECT_EQ(second.claim(slot), slot);
  first.release(slot);  // no longer its own
  EXPECT_NE(first.claim(slot), slot);
}

TEST(Slots, EndWithTheirKeeper) {
  os::TestDir dir;
  Slots second{dir / "slots"};
  {
    Slots first{dir / "slots"};
    EXPECT_EQ(first.claim(9), 9u);
    EXPECT_NE(second.claim(9), 9u);
  }
  EXPECT_EQ(second.claim(9), 9u);
}

TEST(Slots, ALinkIsNotFollowed) {
  os::TestDir dir;
  std::filesystem::create_symlink(dir / "elsewhere", dir / "slots");
  EXPECT_THROW(Slots{dir / "slots"}, SystemError);
  EXPECT_FALSE(std::filesystem::exists(dir / "elsewhere"));
}

TEST(Slots, UidsOfTwoSlotsAreApartAndBelowTheSignBit) {
  EXPECT_GT(guest_uid(0), kServerUid);
  EXPECT_EQ(tenant_uid(0), guest_uid(0) + 1);
  EXPECT_EQ(guest_uid(1), tenant_uid(0) + 1);
  EXPECT_LT(tenant_uid(kSlots - 1), 0x80000000u);
}

TEST(Slots, AClaimCanBeMadeToFail) {
  os::TestDir dir;
  Slots slots{dir / "slots"};
  os::fail_attempt(1);
  EXPECT_THROW(slots.claim(), SystemError);
  EXPECT_NO_THROW(slots.claim());
}

}  // namespace
}  // namespace tb::jail
