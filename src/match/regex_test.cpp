// SPDX-License-Identifier: Apache-2.0
#include "match/regex.h"

#include <gtest/gtest.h>

namespace tb::match {
namespace {

bool matches(std::string_view pattern, std::string_view line, RegexOptions options = {}) {
  Regex regex;
  std::string error;
  EXPECT_TRUE(Regex::compile(pattern, options, regex, error)) << pattern << ": " << error;
  return regex.matches(line);
}

std::string mistake(std::string_view pattern) {
  Regex regex;
  std::string error;
  EXPECT_FALSE(Regex::compile(pattern, {}, regex, error)) << pattern;
  return error;
}

struct Case {
  const char* pattern;
  const char* yes;
  const char* no;
};

TEST(Regex, MatchesWhereItShould) {
  const Case cases[] = {
      {"abc", "xabcx", "ab"},
      {"^a.c$", "abc", "abcd"},
      {"a|bc", "bc", "b"},
      {"(ab)+c", "ababc", "ac"},
      {"a{2,3}b", "xaaab", "ab"},
      {"^a{2}$", "aa", "aaa"},
      {"^a{2,}$", "aaaa", "a"},
      {"a{,2}", "a{,2}", "aa"},
      {"[a-c0-9_-]+$", "b-7", "b-7!"},
      {"[^a-c]", "d", "abc"},
      {"[]a]", "]", "b"},
      {"\\d\\w\\s", "1a ", "1a-"},
      {"\\D\\W\\S", "a-b", "1-b"},
      {"[[:upper:]][[:^digit:]]", "Ab", "A1"},
      {"\\bcat\\b", "a cat!", "concat"},
      {"\\Bcat", "concat", "a cat"},
      {"x*", "", nullptr},
      {"^$", "", "a"},
      {"a\\.b", "a.b", "axb"},
      {"\\x41\\x{e9}\\t", "Aé\t", "Ae\t"},
      {"(?:a)(?P<n>b)(?<m>c)", "abc", "ab"},
      {"(?i)straSSe", "STRASSE", "stra"},
      {"^.{2}$", "éü", "é"},
      {"[à-ü]$", "é", "e"},
      {"(a|b|)c", "c", "a"},
      {"(a*)*b", "aab", "aa"},
      {"a*?b", "aab", "aa"},
  };
  for (const Case& c : cases) {
    EXPECT_TRUE(matches(c.pattern, c.yes)) << c.pattern << " in " << c.yes;
    if (!c.no) continue;
    EXPECT_FALSE(matches(c.pattern, c.no)) << c.pattern << " in " << c.no;
  }
}

TEST(Regex, ALiteralMeansItself) {
  EXPECT_TRUE(matches("a.b*(", "xa.b*(x", {.literal = true}));
  EXPECT_FALSE(matches("a.b", "axb", {.literal = true}));
  EXPECT_TRUE(matches("A.b", "xa.B", {.ignore_case = true, .literal = true}));
}

TEST(Regex, SaysWhatHasNoAutomatonOrIsBroken) {
  for (const char* bad : {"(", ")", "[", "a**", "*a", "(?=a)", "(?!a)", "(?<=a)", "(a)\\1", "\\",
                          "a{2,1}", "a{1001}", "[b-a]", "[[:x:]]", "\\xg", "\\q"}) {
    EXPECT_FALSE(mistake(bad).empty()) << bad;
  }
  EXPECT_NE(mistake("ab(c").find("byte 4"), std::string::npos);
}

TEST(Regex, RefusesWhatStandsForTooMuch) {
  EXPECT_NE(mistake("((a{1000}){1000}){1000}").find("too much"), std::string::npos);
  EXPECT_NE(mistake("(((){1000}){1000}){1000}").find("too much"), std::string::npos);
  EXPECT_FALSE(mistake(std::string(200, '(')).empty());
  EXPECT_FALSE(mistake(std::string(5000, 'a')).empty());
}

// What takes 2^n steps when it is tried one way after another; here it ends in a blink.
TEST(Regex, TakesTimeInProportionToTheText) {
  const std::string text(1 << 20, 'a');
  EXPECT_FALSE(matches("(a+)+b", text));
  EXPECT_FALSE(matches("(a|a)*c", text));
  EXPECT_TRUE(matches("(a+)+$", text));
}

TEST(Regex, GoesOnWhenItsMemoryIsFull) {
  std::string text;
  unsigned random = 1;
  for (int i = 0; i < 200000; ++i) {
    random = random * 1103515245 + 12345;
    text += random >> 16 & 1 ? 'a' : 'b';
  }
  // Each text of the last 14 letters is a state of its own: more than are kept.
  EXPECT_TRUE(matches("a.{14}c", text + "a" + std::string(14, 'b') + "c"));
  EXPECT_FALSE(matches("a.{14}c", text));
}

TEST(Regex, PiecesOfALineAreTheLine) {
  Regex regex;
  std::string error;
  ASSERT_TRUE(Regex::compile("b\\b.*é$", {}, regex, error));
  const std::string line = "ab cdé";
  for (std::size_t cut = 0; cut <= line.size(); ++cut) {
    regex.restart();
    const bool early = regex.feed(line.substr(0, cut)) || regex.feed(line.substr(cut));
    EXPECT_TRUE(early || regex.finish()) << cut;
  }
}

}  // namespace
}  // namespace tb::match
