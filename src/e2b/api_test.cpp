// SPDX-License-Identifier: Apache-2.0
#include "e2b/api.h"

#include <gtest/gtest.h>

#include "base/test_loop.h"

namespace tb::e2b {
namespace {

TEST(PauseBefore, WhatWasNotLookedAtIsTriedAgain) {
  EXPECT_EQ(pause_before(1, 0, false, nullptr), 100ms);
  EXPECT_EQ(pause_before(2, 429, false, nullptr), 400ms);
  EXPECT_FALSE(pause_before(4, 429, true, nullptr));
}

TEST(PauseBefore, WhatMayHaveBeenDoneOnlyIfItMayBeDoneTwice) {
  EXPECT_FALSE(pause_before(1, 503, false, nullptr));
  EXPECT_TRUE(pause_before(1, 503, true, nullptr));
  for (const int status : {200, 201, 204, 400, 401, 404, 409, 500}) {
    EXPECT_FALSE(pause_before(1, status, true, nullptr)) << status;
  }
}

TEST(PauseBefore, ARetryAfterIsHonouredUpToABound) {
  const std::string few = "3", many = "3600", date = "Sun, 06 Nov 1994 08:49:37 GMT", none;
  EXPECT_EQ(pause_before(1, 429, false, &few), 3s);
  EXPECT_FALSE(pause_before(1, 429, false, &many));
  EXPECT_EQ(pause_before(1, 429, false, &date), 100ms);
  EXPECT_EQ(pause_before(1, 429, false, &none), 100ms);
}

TEST(E2bApi, ASandboxAnswersWhereTheSettingsAndTheCloudSay) {
  asio::io_context loop;
  net::Client client{loop.get_executor(), {}};
  const Machine machine{"abc", "", ""};
  const Machine elsewhere{"abc", "", "self.example"};
  const Api usual{loop.get_executor(), client, {.key = "k"}};
  EXPECT_EQ(usual.url_of(machine).text(), "https://sandbox.e2b.app/");
  EXPECT_EQ(usual.url_of(elsewhere).text(), "https://49983-abc.self.example/");
  const Api told{loop.get_executor(), client, {.key = "k", .sandbox_url = "https://one:8443"}};
  EXPECT_EQ(told.url_of(elsewhere).text(), "https://one:8443/");
}

TEST(PercentEncode, LeavesOnlyWhatIsPlain) {
  EXPECT_EQ(percent_encode("a-Z.0_~"), "a-Z.0_~");
  EXPECT_EQ(percent_encode("a b/\xc3\xbc&="), "a%20b%2F%C3%BC%26%3D");
}

}  // namespace
}  // namespace tb::e2b
