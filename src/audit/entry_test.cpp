// SPDX-License-Identifier: Apache-2.0
#include "audit/entry.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "audit/redactor.h"
#include "base/error.h"

namespace tb::audit {
namespace {

namespace json = boost::json;

Entry entry_with(std::string command) {
  Entry entry;
  entry.at = std::chrono::system_clock::from_time_t(1'000'000'000);
  entry.action = "POST /execute";
  entry.status = 200;
  entry.command = std::move(command);
  return entry;
}

TEST(AuditEntry, IsOneLineOfJsonWithWhatIsKnown) {
  Entry entry = entry_with("ls");
  entry.session = "s";
  entry.duration = std::chrono::microseconds{1500};
  EXPECT_EQ(to_line(entry, 7),
            "{\"number\":7,\"time\":\"2001-09-09T01:46:40.000Z\",\"action\":\"POST /execute\","
            "\"result\":\"ok\",\"status\":200,\"session\":\"s\",\"command\":\"ls\","
            "\"duration_ms\":1.500}\n");
}

TEST(AuditEntry, NothingThatAClientSendsEndsALineOrMovesACursor) {
  const std::string nasty[] = {"a\nb",
                               "\r\n{\"number\":1}",
                               "\x1b[2J\x1b]0;x\x07",
                               "\"},{\"x\":\"",
                               "\\",
                               std::string("a\0b", 3),
                               "\x7f",
                               "\xc2\x9b"
                               "31m",
                               "\xe2\x80\xa8",
                               "\xe2\x80\xae"
                               "evil",
                               "\xe2\x81\xa6",
                               "\xff\xfe",
                               "\xc3",
                               "\xf0\x9f\x98\x80 fine \xc3\xa9"};
  for (const std::string& text : nasty) {
    Entry entry = entry_with(text);
    entry.user = entry.thread = entry.forwarded = entry.target = entry.request = text;
    entry.session = entry.tenant = entry.key = entry.action = text;
    const std::string line = to_line(entry, 1);
    EXPECT_EQ(line.find('\n'), line.size() - 1) << text;
    for (const char c : line.substr(0, line.size() - 1)) {
      EXPECT_FALSE(static_cast<unsigned char>(c) < 0x20 || c == 0x7f) << text;
    }
    for (const char* odd : {"\xc2\x9b", "\xe2\x80\xa8", "\xe2\x80\xae", "\xe2\x81\xa6"}) {
      EXPECT_EQ(line.find(odd), std::string::npos) << text;
    }
    const json::object read = json::parse(line).as_object();
    EXPECT_EQ(read.at("number").to_number<int>(), 1);
    EXPECT_EQ(read.at("user").as_string(), read.at("command").as_string());
    if (text.find("\xff") == std::string::npos && text != "\xc3") {
      EXPECT_EQ(std::string{read.at("command").as_string()}, text) << "it is what it was";
    }
  }
}

TEST(AuditEntry, LongTextsAreCut) {
  const std::string line = to_line(entry_with(std::string(100'000, 'x')), 1);
  EXPECT_LT(line.size(), 20'000u);
  EXPECT_NE(line.find("\"command_truncated\":true"), std::string::npos);
}

TEST(AuditEntry, ResultsAreWhatStatusesSay) {
  EXPECT_EQ(result_of(0), "gone");
  EXPECT_EQ(result_of(101), "ok");
  EXPECT_EQ(result_of(399), "ok");
  EXPECT_EQ(result_of(404), "refused");
  EXPECT_EQ(result_of(503), "failed");
}

TEST(Redactor, LeavesOutWhatMatches) {
  Redactor redactor{{"(?i)password=\\S+", "sk-[a-z0-9]{4,}"}};
  EXPECT_EQ(redactor.redact("x PASSWORD=hunter2 y sk-abcd1234; sk-ab"),
            "x [redacted] y [redacted]; sk-ab");
  EXPECT_EQ(redactor.redact("nothing"), "nothing");
  EXPECT_EQ(redactor.redact(""), "");
  EXPECT_EQ(redactor.redact("password=a\npassword=b"), "[redacted]\n[redacted]");
}

TEST(Redactor, AWrongExpressionIsNamed) {
  try {
    const Redactor redactor{{"fine", "(oops"}};
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    EXPECT_NE(std::string{error.what()}.find("(oops"), std::string::npos);
  }
}

}  // namespace
}  // namespace tb::audit
