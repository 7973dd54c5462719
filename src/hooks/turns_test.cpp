// SPDX-License-Identifier: Apache-2.0
#include "hooks/turns.h"

#include <gtest/gtest.h>

#include <vector>

namespace tb::hooks {
namespace {

const auto kNow = std::chrono::system_clock::from_time_t(1'000'000'000);

Turns::Item item(const std::string& id, const std::string& source, const std::string& host,
                 std::uint64_t bytes = 1) {
  return {id, source, host, bytes};
}

std::vector<std::string> take_all(Turns& turns, Turns::Time now = kNow) {
  std::vector<std::string> ids;
  while (const auto taken = turns.take(now)) ids.push_back(taken->id);
  return ids;
}

TEST(Turns, WhatIsDueComesInTheOrderOfItsTime) {
  Turns turns{{.at_once = 10, .per_source = 10, .per_host = 10}};
  turns.add(item("b", "s", "h"), kNow - 1s);
  turns.add(item("a", "s", "h"), kNow);
  turns.add(item("c", "s", "other"), kNow - 2s);
  turns.add(item("later", "s", "h"), kNow + 1s);
  EXPECT_EQ(take_all(turns), (std::vector<std::string>{"c", "b", "a"}));
  EXPECT_EQ(turns.next(), kNow + 1s);
  for (const char* id : {"a", "b", "c"}) turns.done(id);
  EXPECT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns.bytes(), 1u);
}

TEST(Turns, ASourceThatNamesThousandsOfHostsKeepsNoOtherWaiting) {
  Turns turns{{.at_once = 4, .per_source = 2, .per_host = 2, .count = 1000}};
  std::size_t let_in = 0;
  for (int i = 0; i < 5000; ++i) {
    const auto one = item("flood" + std::to_string(i), "bad", "h" + std::to_string(i));
    if (!turns.has_room(one)) continue;
    turns.add(one, kNow - 1h);
    ++let_in;
  }
  EXPECT_EQ(let_in, 500u);
  const auto good = item("good", "good", "receiver");
  ASSERT_TRUE(turns.has_room(good));
  turns.add(good, kNow);
  const std::vector<std::string> taken = take_all(turns);
  ASSERT_EQ(taken.size(), 3u) << "two of the flood, and the good one";
  EXPECT_NE(std::find(taken.begin(), taken.end(), "good"), taken.end());
}

TEST(Turns, AHostThatHangsHasNotAllPlacesWhoeverAsksForIt) {
  Turns turns{{.at_once = 4, .per_source = 4, .per_host = 2}};
  for (int i = 0; i < 8; ++i) {
    turns.add(item(std::to_string(i), "s" + std::to_string(i), "down"), kNow);
  }
  turns.add(item("good", "z", "up"), kNow);
  const std::vector<std::string> taken = take_all(turns);
  EXPECT_EQ(taken.size(), 3u);
  EXPECT_NE(std::find(taken.begin(), taken.end(), "good"), taken.end());
  EXPECT_FALSE(turns.next()) << "whoever is left waits for a place";
  turns.done(taken[0]);
  EXPECT_EQ(turns.next(), kNow);
}

TEST(Turns, BytesHaveABoundToo) {
  Turns turns{{.bytes = 100_B}};
  EXPECT_FALSE(turns.has_room(item("1", "s", "h", 101)));
  turns.add(item("1", "s", "h", 40), kNow);
  EXPECT_FALSE(turns.has_room(item("2", "s", "h2", 30))) << "70 of 60 that are left";
  EXPECT_TRUE(turns.has_room(item("2", "s", "h2", 20)));
  EXPECT_TRUE(turns.has_room(item("3", "other", "h3", 60)));
  EXPECT_FALSE(turns.has_room(item("3", "other", "h3", 61)));
  EXPECT_FALSE(turns.has_room(item("3", "other", "h", 30))) << "its host has 40 already";
  turns.remove("1");
  EXPECT_EQ(turns.bytes(), 0u);
  EXPECT_TRUE(turns.has_room(item("1", "s", "h", 100)));
}

TEST(Turns, WhatIsMovedOrRemovedIsThereOnceOrNotAtAll) {
  Turns turns{{}};
  turns.add(item("1", "s", "h"), kNow + 1h);
  turns.add(item("1", "s", "h"), kNow);
  EXPECT_EQ(turns.size(), 1u);
  EXPECT_EQ(take_all(turns).size(), 1u);
  EXPECT_FALSE(turns.remove("1")) << "it runs";
  turns.add(item("1", "s", "h"), kNow);
  EXPECT_TRUE(take_all(turns).empty());
  turns.done("1");
  EXPECT_EQ(turns.size(), 0u);
  EXPECT_FALSE(turns.remove("1"));
  turns.add(item("2", "s", "h"), kNow);
  EXPECT_TRUE(turns.remove("2"));
  EXPECT_FALSE(turns.next());
}

}  // namespace
}  // namespace tb::hooks
