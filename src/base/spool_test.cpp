// SPDX-License-Identifier: Apache-2.0
#include "base/spool.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/test_loop.h"

namespace tb {
namespace {

TEST(Spool, GivesBackWhatWasAddedAndLeavesNothing) {
  char name[] = "/tmp/tb-spool-XXXXXX";
  const std::filesystem::path dir = ::mkdtemp(name);
  TestLoop loop;
  Spools spools{dir, 1_MiB};
  {
    Spool spool{spools};
    EXPECT_TRUE(loop.run(spool.add("hello ")));
    EXPECT_TRUE(loop.run(spool.add("world")));
    EXPECT_TRUE(std::filesystem::is_empty(dir));
    std::string room(8, '\0');
    EXPECT_EQ(loop.run(spool.read(3, room)), 8u);
    EXPECT_EQ(room, "lo world");
    EXPECT_EQ(loop.run(spool.read(11, room)), 0u);
  }
  std::filesystem::remove(dir);
}

TEST(Spool, SaysWhenThereIsNoRoom) {
  TestLoop loop;
  Spools spools{"/nowhere/at/all", 1_MiB};
  Spool spool{spools};
  EXPECT_FALSE(loop.run(spool.add("x")));
  std::string room(8, '\0');
  EXPECT_EQ(loop.run(spool.read(0, room)), 0u);
}

TEST(Spool, AllTogetherHaveALimit) {
  TestLoop loop;
  Spools spools{"/tmp", Bytes{10}};
  Spool second{spools};
  {
    Spool first{spools};
    EXPECT_TRUE(loop.run(first.add("12345678")));
    EXPECT_FALSE(loop.run(second.add("901")));
    EXPECT_TRUE(loop.run(second.add("90")));
  }
  EXPECT_EQ(spools.held(), Bytes{2});
  EXPECT_TRUE(loop.run(second.add("12345678")));
}

}  // namespace
}  // namespace tb
