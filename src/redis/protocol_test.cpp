// SPDX-License-Identifier: Apache-2.0
#include "redis/protocol.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tb::redis {
namespace {

TEST(RedisProtocol, WritesWordsWithTheirLengths) {
  const std::string bytes{"\0\r\n", 3};
  EXPECT_EQ(format({"SET", "k", bytes}), "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\n" + bytes + "\r\n");
}

TEST(RedisProtocol, ReadsRepliesHoweverTheyAreCut) {
  const std::string bytes = "*3\r\n$5\r\nhello\r\n:42\r\n*1\r\n$-1\r\n-ERR no\r\n";
  for (std::size_t piece = 1; piece < bytes.size(); ++piece) {
    ReplyReader reader;
    std::vector<Reply> replies;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.feed(bytes.substr(at, piece));
      while (auto reply = reader.next()) replies.push_back(std::move(*reply));
    }
    ASSERT_EQ(replies.size(), 2u);
    EXPECT_EQ(replies[0].at(0), "hello");
    EXPECT_EQ(replies[0].list[1].number, 42);
    EXPECT_TRUE(replies[0].list[2].list[0].is_nothing());
    EXPECT_TRUE(replies[1].is_error());
    EXPECT_EQ(replies[1].text, "ERR no");
  }
}

TEST(RedisProtocol, RefusesNonsenseAndTooMuch) {
  ReplyReader reader;
  reader.feed("?\r\n");
  EXPECT_THROW(reader.next(), Error);
  ReplyReader small{Bytes{10}};
  EXPECT_THROW(small.feed("$100\r\n0123456789"), Error);
}

}  // namespace
}  // namespace tb::redis
