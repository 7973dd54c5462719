// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace tb {
namespace {

const std::string kBad = "\xef\xbf\xbd";

std::string bad(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += kBad;
  return text;
}

struct Row {
  const char* name;
  std::string bytes;
  std::string text;
};

const Row kRows[] = {
    {"empty", "", ""},
    {"ascii", "hello\n", "hello\n"},
    {"nul", std::string("a\0b", 3), std::string("a\0b", 3)},
    {"last of two bytes", "\xdf\xbf", "\xdf\xbf"},
    {"first of two bytes", "\xc2\x80", "\xc2\x80"},
    {"first of three bytes", "\xe0\xa0\x80", "\xe0\xa0\x80"},
    {"before the surrogates", "\xed\x9f\xbf", "\xed\x9f\xbf"},
    {"after the surrogates", "\xee\x80\x80", "\xee\x80\x80"},
    {"noncharacter", "\xef\xbf\xbf", "\xef\xbf\xbf"},
    {"first of four bytes", "\xf0\x90\x80\x80", "\xf0\x90\x80\x80"},
    {"last code point", "\xf4\x8f\xbf\xbf", "\xf4\x8f\xbf\xbf"},
    {"lone continuation", "\x80", bad(1)},
    {"lone continuation between letters", "a\xbf\x62", "a" + kBad + "b"},
    {"overlong slash of two bytes", "\xc0\xaf", bad(2)},
    {"overlong of c1", "\xc1\xbf", bad(2)},
    {"overlong of three bytes", "\xe0\x9f\xbf", bad(3)},
    {"overlong of four bytes", "\xf0\x8f\xbf\xbf", bad(4)},
    {"first surrogate", "\xed\xa0\x80", bad(3)},
    {"last surrogate", "\xed\xbf\xbf", bad(3)},
    {"beyond the last code point", "\xf4\x90\x80\x80", bad(4)},
    {"f5", "\xf5\x80\x80\x80", bad(4)},
    {"fe and ff", "\xfe\xff", bad(2)},
    {"two bytes cut", "x\xc3", "x" + bad(1)},
    {"three bytes cut", "\xe2\x82", bad(1)},
    {"four bytes cut", "\xf0\x9f\x98", bad(1)},
    {"cut, then a letter", "\xe2\x82q", bad(1) + "q"},
    {"cut, then a whole one", "\xe2\x82\xc3\xa9", bad(1) + "\xc3\xa9"},
    {"whole, then a continuation too many", "\xc3\xa9\xa9", "\xc3\xa9" + bad(1)},
};

TEST(Utf8, EachCharacterThatIsNoneBecomesAReplacementCharacter) {
  for (const Row& row : kRows) {
    EXPECT_EQ(to_utf8(row.bytes), row.text) << row.name;
    EXPECT_EQ(is_utf8(row.bytes), row.bytes == row.text) << row.name;
  }
}

TEST(Utf8, ABadByteIsFoundAtEveryPlaceOfALongText) {
  for (std::size_t at = 0; at < 100; ++at) {
    std::string bytes(100, 'a');
    bytes[at] = '\xff';
    EXPECT_FALSE(is_utf8(bytes)) << at;
    EXPECT_EQ(to_utf8(bytes), std::string(at, 'a') + kBad + std::string(99 - at, 'a')) << at;
  }
}

TEST(Utf8, AWholeCharacterMayLieAcrossAnyBoundary) {
  for (std::size_t at = 0; at < 40; ++at) {
    const std::string text = std::string(at, 'a') + "\xf0\x9f\x98\x80" + std::string(20, 'b');
    EXPECT_TRUE(is_utf8(text)) << at;
    EXPECT_EQ(to_utf8(text), text) << at;
  }
}

TEST(Utf8, WhatCameOutIsValidAndComesOutAgainAsItIs) {
  std::mt19937 random{2};
  for (int round = 0; round < 5000; ++round) {
    std::string bytes(random() % 40, '\0');
    const bool ascii = random() % 2 == 0;
    for (char& c : bytes) {
      c = static_cast<char>(ascii && random() % 8 != 0 ? 'a' + random() % 26 : random());
    }
    const std::string text = to_utf8(bytes);
    EXPECT_TRUE(is_utf8(text));
    EXPECT_EQ(to_utf8(text), text);
    EXPECT_EQ(text == bytes, is_utf8(bytes));
  }
}

TEST(Utf8, TheFirstCharactersAreNeverHalfOnes) {
  EXPECT_EQ(first_characters("abc", 0), "");
  EXPECT_EQ(first_characters("abc", 2), "ab");
  EXPECT_EQ(first_characters("abc", 3), "abc");
  EXPECT_EQ(first_characters("abc", 9), "abc");
  EXPECT_EQ(first_characters("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80x", 2), "\xc3\xa9\xe2\x82\xac");
  EXPECT_EQ(first_characters("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80x", 3),
            "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  EXPECT_EQ(first_characters("\xff\xc3z", 1), "\xff");
  EXPECT_EQ(first_characters("\xff\xc3z", 2), "\xff\xc3");
  EXPECT_EQ(first_characters("\xf0\x9f", 5), "\xf0\x9f");
}

}  // namespace
}  // namespace tb
