// SPDX-License-Identifier: Apache-2.0
#include "http/read_buffer.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tb::http {
namespace {

constexpr std::size_t kLimit = 64 << 10;

// As much as there is room for comes.
std::size_t fill(ReadBuffer& buffer) {
  const std::span<char> room = buffer.prepare(kLimit);
  std::memset(room.data(), 'x', room.size());
  buffer.commit(room.size());
  return room.size();
}

TEST(ReadBuffer, GrowsToTheLimitWhileAStreamFillsItEvenIfAllIsConsumed) {
  ReadBuffer buffer;
  std::size_t last = 0;
  for (int i = 0; i < 10; ++i) {
    last = fill(buffer);
    buffer.consume(last);
  }
  EXPECT_EQ(last, kLimit);
}

TEST(ReadBuffer, StaysSmallWhileLittleComes) {
  ReadBuffer buffer;
  const std::size_t first = buffer.prepare(kLimit).size();
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(buffer.prepare(kLimit).size(), first);
    buffer.commit(first / 2);
    buffer.consume(first / 2);
  }
}

TEST(ReadBuffer, KeepsWhatIsHeldWhenItGrowsOrMoves) {
  ReadBuffer buffer;
  const std::string text = "held";
  std::memcpy(buffer.prepare(kLimit).data(), text.data(), text.size());
  buffer.commit(text.size());
  const std::size_t rest = fill(buffer);
  fill(buffer);
  EXPECT_TRUE(buffer.view().starts_with("heldxxx"));
  buffer.consume(buffer.view().size() - 2);
  EXPECT_GT(fill(buffer), rest);
  EXPECT_EQ(buffer.view().substr(0, 3), "xxx");
}

TEST(ReadBuffer, HasNoRoomBeyondTheLimit) {
  ReadBuffer buffer;
  while (fill(buffer) != 0) {
  }
  EXPECT_EQ(buffer.view().size(), kLimit);
}

}  // namespace
}  // namespace tb::http
