// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "match/regex.h"

namespace tb::match {
namespace {

// The parts of `text` that match, with commas between them.
std::string found(const char* pattern, std::string_view text) {
  Regex regex;
  std::string error;
  EXPECT_TRUE(Regex::compile(pattern, {}, regex, error)) << pattern << ": " << error;
  std::string parts;
  Regex::Span span;
  for (std::size_t at = 0; regex.find(text, at, span); at = span.end) {
    parts +=
        (parts.empty() ? "" : ",") + std::string{text.substr(span.begin, span.end - span.begin)};
  }
  return parts;
}

TEST(RegexFind, FindsTheFirstAndTheLongest) {
  EXPECT_EQ(found("a+", "baaac aa"), "aaa,aa");
  EXPECT_EQ(found("ab|abcd|bcdef", "xabcdef"), "abcd") << "the earlier one, as long as it is";
  EXPECT_EQ(found("password=\\S+", "x password=hunter2 y password=b"),
            "password=hunter2,password=b");
  EXPECT_EQ(found("(?i)token: *[a-z0-9]+", "Token:  ABC9; TOKEN:x"), "Token:  ABC9,TOKEN:x");
  EXPECT_EQ(found("x", "abc"), "");
  EXPECT_EQ(found("x*", "abc"), "") << "nothing is no part";
  EXPECT_EQ(found("[0-9]{3,4}", "12 345 67890"), "345,6789");
}

TEST(RegexFind, KnowsWhatStandsOnBothSides) {
  EXPECT_EQ(found("^a", "aaa"), "a");
  EXPECT_EQ(found("a$", "aba"), "a");
  EXPECT_EQ(found("\\bcat\\b", "concat cat cats"), "cat");
  EXPECT_EQ(found("\xc3\xa9+", "caf\xc3\xa9\xc3\xa9!"), "\xc3\xa9\xc3\xa9");
}

TEST(RegexFind, SaysTheSameAsTheAutomaton) {
  for (const char* pattern : {"a(b|c)*d", "\\d+-\\d+", "^x.*y$", "(?i)key", "a{2,3}b?"}) {
    for (const char* text : {"", "abcbcd", "12-34", "x--y", "xy", "KEYS", "aab", "a", "caaaab"}) {
      Regex regex;
      std::string error;
      ASSERT_TRUE(Regex::compile(pattern, {}, regex, error));
      Regex::Span span;
      EXPECT_EQ(regex.find(text, 0, span), regex.matches(text)) << pattern << " in " << text;
    }
  }
}

}  // namespace
}  // namespace tb::match
