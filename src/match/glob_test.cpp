// SPDX-License-Identifier: Apache-2.0
#include "match/glob.h"

#include <gtest/gtest.h>

namespace tb::match {
namespace {

bool matches(std::string_view pattern, std::string_view path) {
  Glob glob;
  std::string error;
  EXPECT_TRUE(Glob::compile(pattern, glob, error)) << pattern << ": " << error;
  return glob.matches(path);
}

std::string mistake(std::string_view pattern) {
  Glob glob;
  std::string error;
  EXPECT_FALSE(Glob::compile(pattern, glob, error)) << pattern;
  return error;
}

TEST(Glob, StarsStayWithinAName) {
  EXPECT_TRUE(matches("*.py", "a.py"));
  EXPECT_TRUE(matches("*.py", ".py"));
  EXPECT_FALSE(matches("*.py", "d/a.py"));
  EXPECT_TRUE(matches("a*b*c", "aXbXbXc"));
  EXPECT_FALSE(matches("a*b*c", "aXbXbX"));
}

TEST(Glob, TwoStarsAreAnyNumberOfDirectories) {
  for (const char* path : {"a.py", "d/a.py", "d/e/f/a.py", ".git/a.py"}) {
    EXPECT_TRUE(matches("**/*.py", path)) << path;
  }
  EXPECT_TRUE(matches("a/**/b", "a/b"));
  EXPECT_TRUE(matches("a/**/b", "a/x/y/b"));
  EXPECT_FALSE(matches("a/**/b", "x/a/b"));
}

TEST(Glob, TwoStarsAtTheEndAreAllBelowButNotTheDirectory) {
  EXPECT_TRUE(matches("a/**", "a/b/c"));
  EXPECT_FALSE(matches("a/**", "a"));
  EXPECT_TRUE(matches("**", "a"));
}

TEST(Glob, SetsBracesAndQuotedCharacters) {
  EXPECT_TRUE(matches("[a-c]x", "bx"));
  EXPECT_FALSE(matches("[!a-c]x", "bx"));
  EXPECT_TRUE(matches("[]-]", "]"));
  EXPECT_TRUE(matches("{a,b{c,d}}.h", "bd.h"));
  EXPECT_TRUE(matches("{src,include}/**/*.{h,cpp}", "include/x/y.h"));
  EXPECT_TRUE(matches("\\*\\{", "*{"));
  EXPECT_FALSE(matches("\\*", "a"));
}

TEST(Glob, AQuestionMarkIsACharacterAndNotAByte) {
  EXPECT_TRUE(matches("?", "é"));
  EXPECT_TRUE(matches("[à-ü]", "é"));
  EXPECT_TRUE(matches("?", "\xff"));
  EXPECT_FALSE(matches("?", "éé"));
}

TEST(Glob, SaysWhatIsWrong) {
  EXPECT_NE(mistake("[a").find("without its ]"), std::string::npos);
  EXPECT_NE(mistake("{a").find("without its }"), std::string::npos);
  EXPECT_NE(mistake("a\\").find("at the end"), std::string::npos);
  EXPECT_NE(mistake("").find("empty"), std::string::npos);
  EXPECT_NE(mistake("a/../b").find(".."), std::string::npos);
  EXPECT_NE(mistake("[b-a]").find("ends before"), std::string::npos);
}

TEST(Glob, BoundsWhatAPatternStandsFor) {
  std::string braces;
  for (int i = 0; i < 20; ++i) braces += "{a,b}";
  EXPECT_NE(mistake(braces).find("128"), std::string::npos);
  EXPECT_NE(mistake(std::string(5000, 'a')).find("4096"), std::string::npos);
  std::string deep;
  for (int i = 0; i < 70; ++i) deep += "a/";
  EXPECT_NE(mistake(deep).find("60"), std::string::npos);
}

TEST(Glob, KnowsWhereNothingBelowCanMatch) {
  Glob glob;
  std::string error;
  ASSERT_TRUE(Glob::compile("a/*.py", glob, error));
  EXPECT_FALSE(glob.hopeless(glob.start()));
  EXPECT_FALSE(glob.hopeless(glob.enter(glob.start(), "a")));
  EXPECT_TRUE(glob.hopeless(glob.enter(glob.start(), "b")));
  EXPECT_TRUE(glob.hopeless(glob.enter(glob.enter(glob.start(), "a"), "x.py")));
}

}  // namespace
}  // namespace tb::match
