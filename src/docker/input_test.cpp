// SPDX-License-Identifier: Apache-2.0
#include "docker/input.h"

#include <gtest/gtest.h>

#include "guest/carrier_wire.h"

namespace tb::docker {
namespace {

class CarriedInputTest : public testing::Test {
 protected:
  // What write(2) would say of the text.
  ssize_t write(std::string_view text) { return input.write(text.data(), text.size()); }

  std::vector<std::string> sent;
  CarriedInput input{[this](std::string_view bytes) { sent.emplace_back(bytes); }};
};

TEST_F(CarriedInputTest, BytesCountOnceTheyAreInThePipe) {
  EXPECT_EQ(write("hello"), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(write("hello"), -1);  // offered again, not sent again
  EXPECT_EQ(sent, std::vector<std::string>{"hello"});
  bool woken = false;
  input.wait([&] { woken = true; });
  input.taken(3, false);
  EXPECT_TRUE(woken);
  EXPECT_EQ(write("hello"), 3);
  EXPECT_EQ(write("lo"), -1);
  EXPECT_EQ(sent.size(), 1u);
  input.taken(2, false);
  EXPECT_EQ(write("lo"), 2);
}

TEST_F(CarriedInputTest, NoMoreIsOnItsWayThanTheWindow) {
  const std::string much(guest::carrier::kInputWindow + 1, 'x');
  write(much);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].size(), guest::carrier::kInputWindow);
}

TEST_F(CarriedInputTest, WhatIsOnItsWayIsNotTakenBackAndNotCountedTwice) {
  write("abcdef");
  EXPECT_EQ(input.give_up(), 6u);
  EXPECT_EQ(write("next"), -1);
  EXPECT_EQ(sent.size(), 1u);  // in order: not before the others are in the pipe
  input.taken(6, false);
  EXPECT_EQ(write("next"), -1);
  EXPECT_EQ(sent, (std::vector<std::string>{"abcdef", "next"}));
  input.taken(4, false);
  EXPECT_EQ(write("next"), 4);
}

TEST_F(CarriedInputTest, NobodyReadsIsABrokenPipe) {
  write("x");
  input.taken(0, true);
  EXPECT_EQ(write("x"), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(CarriedInputTest, ALostCarrierBreaksOnlyWhatWasOnItsWay) {
  input.interrupted();
  input.resumed();
  EXPECT_EQ(write("x"), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(sent.size(), 1u);
  input.interrupted();
  EXPECT_EQ(write("x"), -1);
  EXPECT_EQ(errno, EPIPE);
}

// Else they count as written, and nobody ever gets them.
TEST_F(CarriedInputTest, NothingIsSentWhileNoCarrierHasTheStream) {
  input.interrupted();
  EXPECT_EQ(write("x"), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(sent.empty());
  EXPECT_EQ(input.give_up(), 0u);
  bool woken = false;
  input.wait([&] { woken = true; });
  input.resumed();
  EXPECT_TRUE(woken);
  EXPECT_EQ(write("y"), -1);
  EXPECT_EQ(sent, std::vector<std::string>{"y"});
}

}  // namespace
}  // namespace tb::docker
