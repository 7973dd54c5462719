// SPDX-License-Identifier: Apache-2.0
#include "cluster/address.h"

#include <gtest/gtest.h>

#include "http/test_exchange.h"

namespace tb::cluster {
namespace {

constexpr const char* kId = "7190db9a-e7c5-40f5-a3f5-49947e2bdb45";

Addressee target(const std::string& text) {
  return read_target(http::TestExchange{"GET", text}.request());
}

Addressee body(const std::string& text, const std::string& type = {}) {
  http::TestExchange exchange{"POST", "/execute"};
  if (!type.empty()) exchange.add_header("Content-Type", type);
  return read_body(exchange.request(), text);
}

TEST(Addressee, IsASessionInAnyPathOfAnyDialect) {
  const std::string id = kId;
  EXPECT_EQ(target("/status/" + id).session, id);
  EXPECT_EQ(target("/api/sessions/" + id + "/files/content?path=%2Fx").session, id);
  EXPECT_EQ(target("/api/e2b/files/" + id + "/a/b").session, id);
  EXPECT_TRUE(target("/api/webhooks/deliveries/" + id).empty());
  EXPECT_TRUE(target("/status/none").empty());
}

TEST(Addressee, IsInTheQuery) {
  EXPECT_EQ(target("/get_session?thread_id=a+b%2Fc").thread, "a b/c");
  EXPECT_EQ(target(std::string{"/list_files?session_id="} + kId).session, kId);
}

TEST(Addressee, IsAtTheTopOfJson) {
  EXPECT_EQ(body(R"({"session_id": "s1", "command": "x"})").session, "s1");
  EXPECT_EQ(body(R"({"user_id":"u","thread_id":"\u00fc\"t"})").thread, "\xc3\xbc\"t");
  EXPECT_TRUE(body(R"({"env":{"session_id":"s1"},"list":["session_id","x"]})").empty());
  EXPECT_TRUE(body(R"({"session_id":5})").empty());
  EXPECT_EQ(body(R"({"a":{"session_id":"no"},"session_id":"yes"})").session, "yes");
  EXPECT_TRUE(body("not json").empty());
  EXPECT_TRUE(body("").empty());
}

TEST(Addressee, IsFoundInABeginningAndNotInHalfAName) {
  const std::string text = R"({"session_id":"s1","command":")" + std::string(1000, 'x') + "\"}";
  EXPECT_EQ(body(text.substr(0, 100)).session, "s1");
  EXPECT_TRUE(body(R"({"session_id":"s)").empty());
}

TEST(Addressee, IsAFieldOfAForm) {
  const std::string type = "multipart/form-data; boundary=b";
  const std::string form =
      "--b\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\ns1\r\n--b\r\n"
      "Content-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\nbytes";
  EXPECT_EQ(body(form, type).session, "s1");
  EXPECT_TRUE(body(form.substr(0, 40), type).empty());
}

}  // namespace
}  // namespace tb::cluster
