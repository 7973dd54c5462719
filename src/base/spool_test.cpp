// SPDX-License-Identifier: Apache-2.0
#include "base/spool.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace tb {
namespace {

TEST(Spool, GivesBackWhatWasAddedAndLeavesNothing) {
  char name[] = "/tmp/tb-spool-XXXXXX";
  const std::filesystem::path dir = ::mkdtemp(name);
  {
    Spool spool{dir};
    EXPECT_TRUE(spool.add("hello "));
    EXPECT_TRUE(spool.add("world"));
    EXPECT_TRUE(std::filesystem::is_empty(dir));
    std::string room(8, '\0');
    EXPECT_EQ(spool.read(3, room), 8u);
    EXPECT_EQ(room, "lo world");
    EXPECT_EQ(spool.read(11, room), 0u);
  }
  std::filesystem::remove(dir);
}

TEST(Spool, SaysWhenThereIsNoRoom) {
  Spool spool{"/nowhere/at/all"};
  EXPECT_FALSE(spool.add("x"));
  std::string room(8, '\0');
  EXPECT_EQ(spool.read(0, room), 0u);
}

}  // namespace
}  // namespace tb
