// SPDX-License-Identifier: Apache-2.0
#include "e2b/frames.h"

#include <gtest/gtest.h>

#include <vector>

namespace tb::e2b {
namespace {

std::string last(std::string_view message) {
  std::string frame = envelope(message);
  frame[0] = 2;
  return frame;
}

std::vector<std::string> messages_of(const std::string& bytes, std::size_t step) {
  Frames frames;
  std::vector<std::string> found;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    frames.add(std::string_view{bytes}.substr(at, step));
    Frame frame;
    while (frames.next(frame)) found.push_back((frame.last ? "last " : "") + frame.message);
  }
  if (frames.broken()) found.push_back("broken");
  if (!frames.between()) found.push_back("more");
  return found;
}

TEST(Frames, AreTheSameHoweverTheyAreCut) {
  const std::string bytes = envelope("{\"a\":1}") + envelope("") + envelope("xyz") + last("{}");
  const std::vector<std::string> all{"{\"a\":1}", "", "xyz", "last {}"};
  for (const std::size_t step : {1, 2, 5, 7, 1000}) EXPECT_EQ(messages_of(bytes, step), all);
}

TEST(Frames, HalfOfOneIsNone) {
  const std::string bytes = envelope("whole") + envelope("half").substr(0, 7);
  EXPECT_EQ(messages_of(bytes, 3), (std::vector<std::string>{"whole", "more"}));
}

TEST(Frames, WhatIsNoneIsRefused) {
  EXPECT_EQ(messages_of("HTTP/1.1 200 OK\r\n", 4), (std::vector<std::string>{"broken", "more"}));
  std::string compressed = envelope("zzz");
  compressed[0] = 1;
  EXPECT_EQ(messages_of(compressed, 100).front(), "broken");
  std::string huge = envelope("zzz");
  huge[1] = '\x7f';
  EXPECT_EQ(messages_of(huge, 100).front(), "broken");
}

TEST(Frames, NothingFollowsTheLastOne) {
  for (const std::size_t step : {1, 1000}) {
    const auto found = messages_of(last("{}") + envelope("more"), step);
    ASSERT_GE(found.size(), 2u);
    EXPECT_EQ(found[0], "last {}");
    EXPECT_EQ(found[1], "broken");
  }
}

}  // namespace
}  // namespace tb::e2b
