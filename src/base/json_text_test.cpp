// SPDX-License-Identifier: Apache-2.0
#include "base/json_text.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>

namespace tb {
namespace {

std::string written(std::string_view text) {
  std::string out;
  append_json(out, text);
  return out;
}

TEST(JsonText, EscapesWhatMustBe) {
  EXPECT_EQ(written(""), "\"\"");
  EXPECT_EQ(written("plain é 漢 🙂"), "\"plain é 漢 🙂\"");
  EXPECT_EQ(written("a\"b\\c\n\r\t\b\f"), R"("a\"b\\c\n\r\t\b\f")");
  EXPECT_EQ(written(std::string{"\0\x1f\x7f", 3}), "\"\\u0000\\u001f\x7f\"");
}

TEST(JsonText, ReadsBackAsItWasWhereverASpecialCharacterStands) {
  std::mt19937 dice{7};
  const std::string letters = "abcdefgh\"\\\n\x01\x7f";
  for (int round = 0; round < 2000; ++round) {
    std::string text(dice() % 40, 'x');
    for (char& c : text) {
      if (dice() % 4 == 0) c = letters[dice() % letters.size()];
    }
    EXPECT_EQ(boost::json::parse(written(text)).as_string(), text);
  }
}

}  // namespace
}  // namespace tb
