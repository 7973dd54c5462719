// SPDX-License-Identifier: Apache-2.0
#include "api/fields.h"

#include <gtest/gtest.h>

#include "base/test_loop.h"
#include "http/test_exchange.h"

namespace tb::api {
namespace {

namespace json = boost::json;

json::object object(const std::string& text) { return json::parse(text).as_object(); }

json::object read(const std::string& body) {
  http::TestExchange exchange{"POST", "/x", body};
  TestLoop loop;
  return loop.run(read_object(exchange));
}

// The status that reading this body ends with; 200 when it is fine.
int status_of(const std::string& body) {
  try {
    read(body);
    return 200;
  } catch (const http::HttpError& error) {
    return error.status();
  }
}

std::string nested(int depth) {
  return "{\"a\":" + std::string(static_cast<std::size_t>(depth), '[') +
         std::string(static_cast<std::size_t>(depth), ']') + "}";
}

TEST(Body, IsAnObject) {
  EXPECT_EQ(read("{\"a\":1}").at("a").as_int64(), 1);
  EXPECT_TRUE(read("").empty());
  EXPECT_TRUE(read(" \r\n\t").empty());
  EXPECT_TRUE(read("{}").empty());
}

TEST(Body, MayComeInPieces) {
  http::TestExchange exchange{"POST", "/x", "{\"command\":\"echo h\xc3\xa9\"}"};
  exchange.chunk(1);
  TestLoop loop;
  EXPECT_EQ(loop.run(read_object(exchange)).at("command").as_string(), "echo h\xc3\xa9");
}

TEST(Body, WhatIsNoObjectIs400) {
  for (const char* body : {"[]",
                           "1",
                           "null",
                           "\"x\"",
                           "true",
                           "{",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{} x",
                           "{a:1}",
                           "{'a':1}",
                           "NaN",
                           "{\"a\":NaN}",
                           "{\"a\":Infinity}",
                           "\xff",
                           "{\"a\":\"\xff\"}",
                           "{\"a\":\"\xed\xa0\x80\"}",
                           "{\"a\":\"\\ud800\"}",
                           "{\"a\":01}",
                           "{\"a\":\"\n\"}",
                           "\xef\xbb\xbf"}) {
    EXPECT_EQ(status_of(body), 400) << body;
  }
}

TEST(Body, ThatIsNestedTooDeepIs400) {
  EXPECT_EQ(status_of(nested(20)), 200);
  EXPECT_EQ(status_of(nested(40)), 400);
  EXPECT_EQ(status_of(nested(100000)), 400);
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  EXPECT_EQ(status_of(objects), 400);
}

TEST(Body, ThatIsTooLargeIs413) {
  const std::string spaces(17 << 20, ' ');
  EXPECT_EQ(status_of("{}" + spaces), 413);
  http::TestExchange exchange{"POST", "/x", "{}" + spaces};
  exchange.chunk(1 << 20);
  TestLoop loop;
  EXPECT_THROW(loop.run(read_object(exchange)), http::HttpError);
}

TEST(Fields, TextIsAString) {
  const json::object body = object(R"({"a":"x","n":null,"i":1,"l":["x"],"b":true,"e":""})");
  EXPECT_EQ(find_text(body, "a"), "x");
  EXPECT_EQ(find_text(body, "e"), "");
  EXPECT_EQ(find_text(body, "n"), std::nullopt);
  EXPECT_EQ(find_text(body, "absent"), std::nullopt);
  for (const char* name : {"i", "l", "b"}) {
    try {
      find_text(body, name);
      ADD_FAILURE() << name;
    } catch (const http::HttpError& error) {
      EXPECT_EQ(error.status(), 400);
      EXPECT_EQ(error.text(), std::string{"\""} + name + "\" must be a string");
    }
  }
}

TEST(Fields, NumbersAreNumbers) {
  const json::object body =
      object(R"({"i":-3,"u":18446744073709551615,"d":0.5,"s":"1","n":null,"b":false})");
  EXPECT_EQ(find_number(body, "i"), -3.0);
  EXPECT_EQ(find_number(body, "u"), 18446744073709551615.0);
  EXPECT_EQ(find_number(body, "d"), 0.5);
  EXPECT_EQ(find_number(body, "n"), std::nullopt);
  EXPECT_EQ(find_number(body, "absent"), std::nullopt);
  EXPECT_THROW(find_number(body, "s"), http::HttpError);
  EXPECT_THROW(find_number(body, "b"), http::HttpError);
}

// Nothing at all when it is refused.
std::optional<Milliseconds> timeout(const std::string& value) {
  try {
    return find_timeout(object("{\"timeout\":" + value + "}"));
  } catch (const http::HttpError& error) {
    EXPECT_EQ(error.status(), 400);
    return Milliseconds{-1};
  }
}

TEST(Timeout, IsBoundedOrRefused) {
  const Milliseconds refused{-1};
  const struct {
    const char* value;
    std::optional<Milliseconds> expected;
  } rows[] = {
      {"0", refused},
      {"-0.0", refused},
      {"-1", refused},
      {"1e18", refused},
      {"1e308", refused},
      {"2147483648", refused},
      {"9223372036854775807", refused},
      {"9223372036854775808", refused},
      {"18446744073709551615", refused},
      {"-9223372036854775808", refused},
      {"86400.001", refused},
      {"\"5\"", refused},
      {"true", refused},
      {"[5]", refused},
      {"{}", refused},
      {"null", std::nullopt},
      {"0.001", 1ms},
      {"0.0000001", 1ms},
      {"1e-300", 1ms},
      {"0.5", 500ms},
      {"5", 5s},
      {"5.0", 5s},
      {"86400", 24h},
  };
  for (const auto& row : rows) EXPECT_EQ(timeout(row.value), row.expected) << row.value;
  EXPECT_EQ(find_timeout({}), std::nullopt);
}

TEST(Timeout, ThatIsNoNumberOfJsonIsRefusedWithTheBody) {
  for (const char* value : {"NaN", "Infinity", "-Infinity", "0x10", "+5", "05"}) {
    EXPECT_EQ(status_of(std::string{"{\"timeout\":"} + value + "}"), 400) << value;
  }
}

}  // namespace
}  // namespace tb::api
