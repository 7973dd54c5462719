// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/test_log.h"

namespace tb {
namespace {

boost::json::object parse(const std::string& line) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(line, error);
  EXPECT_FALSE(error) << line << error.message();
  return value.is_object() ? value.as_object() : boost::json::object{};
}

TEST(Log, AnEventIsOneLineOfKeysAndValues) {
  CapturedLog captured{LogLevel::info, false};
  log(LogLevel::info, "session_created", {{"user", "me"}, {"words", "a b"}, {"none", ""}});
  const std::string text = captured.text();
  EXPECT_TRUE(text.ends_with(" [SANDBOX] event=session_created user=me words=\"a b\" none=\"\"\n"))
      << text;
  EXPECT_EQ(text.find('Z'), 23u) << text;  // 2026-01-01T00:00:00.000Z
}

TEST(Log, ControlCharactersNeverMakeAnotherLine) {
  CapturedLog captured{LogLevel::info, false};
  log(LogLevel::info, "x", {{"a", "1\n2026 [SANDBOX] event=forged\r\x1b[2J\x7f"}, {"b", "q\"e\\"}});
  const std::string text = captured.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(text.find_first_of("\r\x1b\x7f"), std::string::npos) << text;
  EXPECT_NE(text.find("\\u000a"), std::string::npos) << text;
  EXPECT_NE(text.find("b=\"q\\\"e\\\\\""), std::string::npos) << text;
}

TEST(Log, WhatATerminalOrAReaderOfLinesWouldObeyIsEscapedToo) {
  CapturedLog captured{LogLevel::info, false};
  const std::string csi = "\xc2\x9b";        // U+009B
  const std::string next = "\xc2\x85";       // U+0085
  const std::string line = "\xe2\x80\xa8";   // U+2028
  const std::string right = "\xe2\x80\xae";  // U+202E
  log(LogLevel::info, "x",
      {{"a", csi + "2J" + next + line + right}, {"b", "\xc2\xa0\xe2\x82\xac"}});
  const std::string text = captured.text();
  EXPECT_TRUE(
      text.ends_with(" event=x a=\"\\u009b2J\\u0085\\u2028\\u202e\" b=\xc2\xa0\xe2\x82\xac\n"))
      << text;
}

TEST(Log, JsonLinesAreJson) {
  CapturedLog captured{LogLevel::debug, true};
  const std::string odd = "a\"b\\c\nd\te\x01\x7f\xc3\xa9";
  log(LogLevel::warning, "odd", {{"value", odd}, {"empty", ""}});
  const boost::json::object line = parse(captured.text());
  EXPECT_EQ(line.at("level").as_string(), "warning");
  EXPECT_EQ(line.at("event").as_string(), "odd");
  EXPECT_EQ(line.at("value").as_string(), odd);
  EXPECT_EQ(line.at("empty").as_string(), "");
}

TEST(Log, NumbersAreNumbersInJson) {
  CapturedLog captured{LogLevel::info, true};
  log(LogLevel::info, "x", {{"exit_code", "-1", true}, {"text", "5"}});
  const boost::json::object line = parse(captured.text());
  EXPECT_EQ(line.at("exit_code").as_int64(), -1);
  EXPECT_EQ(line.at("text").as_string(), "5");
}

// Names are cut to a few bytes for the log, which may be in the middle of a character.
TEST(Log, JsonLinesAreJsonEvenWhenAValueIsNotUtf8) {
  CapturedLog captured{LogLevel::debug, true};
  log(LogLevel::info, "cut", {{"thread", "caf\xc3"}, {"raw", "\xff\xfe"}});
  const boost::json::object line = parse(captured.text());
  EXPECT_TRUE(line.contains("thread"));
}

TEST(Log, WhatIsBelowTheLevelIsNotWritten) {
  CapturedLog captured{LogLevel::warning, false};
  log(LogLevel::debug, "no");
  log(LogLevel::info, "no");
  log(LogLevel::error, "yes");
  const std::string text = captured.text();
  EXPECT_EQ(text.find("no"), std::string::npos);
  EXPECT_NE(text.find("event=yes"), std::string::npos);
}

TEST(Log, OffWritesNothing) {
  CapturedLog captured{LogLevel::off, false};
  log(LogLevel::error, "no");
  EXPECT_EQ(captured.text(), "");
}

}  // namespace
}  // namespace tb
