// SPDX-License-Identifier: Apache-2.0
#include "docker/files.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_loop.h"

namespace tb::docker {
namespace {

using guest::carrier::Kind;

class FileChannelsTest : public testing::Test {
 protected:
  // As the helper of the first channel says it.
  void answer(std::string_view packet) {
    Writer out;
    out.u32(1);
    out.u8(0);
    guest::carrier::FileState{}.encode(out);
    out.bytes(packet);
    EXPECT_TRUE(channels.receive(Kind::file_answer, out.view()));
  }

  TestLoop loop;
  std::vector<Kind> sent;
  FileChannels channels{loop.executor(),
                        [this](Kind kind, std::string_view) { sent.push_back(kind); }};
};

TEST_F(FileChannelsTest, WhatCameIsHeardInOrder) {
  const auto link = channels.open();
  EXPECT_EQ(sent, std::vector<Kind>{Kind::file_open});
  answer("one");
  answer("two");
  EXPECT_EQ(loop.run(link->hear(1s)).packet, "one");
  EXPECT_EQ(loop.run(link->hear(1s)).packet, "two");
}

TEST_F(FileChannelsTest, AHelperThatTalksOnAndOnIsGivenUp) {
  const auto link = channels.open();
  const std::string much(1 << 20, 'x');
  for (int i = 0; i < 70; ++i) answer(much);
  EXPECT_THROW(loop.run(link->hear(1s)), Error);
  answer("more");  // to nobody
}

TEST_F(FileChannelsTest, WhatWasHeardCountsNoMore) {
  const auto link = channels.open();
  const std::string much(1 << 20, 'x');
  for (int i = 0; i < 140; ++i) {
    answer(much);
    EXPECT_EQ(loop.run(link->hear(1s)).packet.size(), much.size());
  }
}

}  // namespace
}  // namespace tb::docker
