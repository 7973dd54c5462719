// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "base/error.h"

namespace tb {
namespace {

// What is written to standard error while it lives.
class Captured {
 public:
  Captured(LogLevel level, bool json) {
    set_log(level, json);
    int ends[2];
    check(::pipe2(ends, O_CLOEXEC), "pipe2");
    saved_ = check(::fcntl(2, F_DUPFD_CLOEXEC, 10), "save stderr");
    check(::dup2(ends[1], 2), "dup2");
    ::close(ends[1]);
    read_ = ends[0];
  }
  ~Captured() {
    if (saved_ >= 0) text();
    set_log(LogLevel::info, false);
  }
  // Ends it.
  std::string text() {
    ::dup2(saved_, 2);
    ::close(saved_);
    saved_ = -1;
    std::string all;
    char buffer[4096];
    for (ssize_t n; (n = ::read(read_, buffer, sizeof buffer)) > 0;) {
      all.append(buffer, static_cast<std::size_t>(n));
    }
    ::close(read_);
    return all;
  }

 private:
  int saved_;
  int read_;
};

boost::json::object parse(const std::string& line) {
  boost::system::error_code error;
  boost::json::value value = boost::json::parse(line, error);
  EXPECT_FALSE(error) << line << error.message();
  return value.is_object() ? value.as_object() : boost::json::object{};
}

TEST(Log, AnEventIsOneLineOfKeysAndValues) {
  Captured captured{LogLevel::info, false};
  log(LogLevel::info, "session_created", {{"user", "me"}, {"words", "a b"}, {"none", ""}});
  const std::string text = captured.text();
  EXPECT_TRUE(text.ends_with(" [SANDBOX] event=session_created user=me words=\"a b\" none=\"\"\n"))
      << text;
  EXPECT_EQ(text.find('Z'), 23u) << text;  // 2026-01-01T00:00:00.000Z
}

TEST(Log, ControlCharactersNeverMakeAnotherLine) {
  Captured captured{LogLevel::info, false};
  log(LogLevel::info, "x", {{"a", "1\n2026 [SANDBOX] event=forged\r\x1b[2J\x7f"}, {"b", "q\"e\\"}});
  const std::string text = captured.text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_EQ(text.find_first_of("\r\x1b\x7f"), std::string::npos) << text;
  EXPECT_NE(text.find("\\u000a"), std::string::npos) << text;
  EXPECT_NE(text.find("b=\"q\\\"e\\\\\""), std::string::npos) << text;
}

TEST(Log, JsonLinesAreJson) {
  Captured captured{LogLevel::debug, true};
  const std::string odd = "a\"b\\c\nd\te\x01\x7f\xc3\xa9";
  log(LogLevel::warning, "odd", {{"value", odd}, {"empty", ""}});
  const boost::json::object line = parse(captured.text());
  EXPECT_EQ(line.at("level").as_string(), "warning");
  EXPECT_EQ(line.at("event").as_string(), "odd");
  EXPECT_EQ(line.at("value").as_string(), odd);
  EXPECT_EQ(line.at("empty").as_string(), "");
}

// Names are cut to a few bytes for the log, which may be in the middle of a character.
TEST(Log, JsonLinesAreJsonEvenWhenAValueIsNotUtf8) {
  Captured captured{LogLevel::debug, true};
  log(LogLevel::info, "cut", {{"thread", "caf\xc3"}, {"raw", "\xff\xfe"}});
  const boost::json::object line = parse(captured.text());
  EXPECT_TRUE(line.contains("thread"));
}

TEST(Log, WhatIsBelowTheLevelIsNotWritten) {
  Captured captured{LogLevel::warning, false};
  log(LogLevel::debug, "no");
  log(LogLevel::info, "no");
  log(LogLevel::error, "yes");
  const std::string text = captured.text();
  EXPECT_EQ(text.find("no"), std::string::npos);
  EXPECT_NE(text.find("event=yes"), std::string::npos);
}

TEST(Log, OffWritesNothing) {
  Captured captured{LogLevel::off, false};
  log(LogLevel::error, "no");
  EXPECT_EQ(captured.text(), "");
}

}  // namespace
}  // namespace tb
