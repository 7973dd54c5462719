// SPDX-License-Identifier: Apache-2.0
#include "redis/locate.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tb::redis {
namespace {

Reply error(std::string text) {
  Reply reply;
  reply.type = Reply::Type::error;
  reply.text = std::move(text);
  return reply;
}

TEST(Locate, ReadsNodesWithAndWithoutAPort) {
  EXPECT_EQ(parse_node("redis-1", 6379).host, "redis-1");
  EXPECT_EQ(parse_node("redis-1", 6379).port, 6379);
  EXPECT_EQ(parse_node("10.0.0.7:26379", 1).port, 26379);
  EXPECT_EQ(parse_node("[::1]:7000", 1).host, "::1");
  EXPECT_EQ(parse_node("[::1]", 7).port, 7);
  for (const char* text : {"", ":1", "h:", "h:x", "h:0", "h:70000", "[::1", "[::1]x"}) {
    EXPECT_THROW(parse_node(text, 6379), Error) << text;
  }
}

TEST(Locate, FollowsWhatHasMoved) {
  const Node asked{"here", 1};
  const auto moved = moved_to(error("MOVED 3999 10.0.0.7:6381"), asked);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->host, "10.0.0.7");
  EXPECT_EQ(moved->port, 6381);
  EXPECT_EQ(moved_to(error("MOVED 1 :7001"), asked)->host, "here");
  EXPECT_FALSE(moved_to(error("ERR no"), asked));
  EXPECT_TRUE(is_elsewhere(error("READONLY You can't write against a read only replica.")));
  EXPECT_FALSE(is_elsewhere(error("ERR no")));
}

}  // namespace
}  // namespace tb::redis
