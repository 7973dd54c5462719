// SPDX-License-Identifier: Apache-2.0
#include "base/hex.h"

#include <gtest/gtest.h>

#include <array>

namespace tb {
namespace {

TEST(Hex, GoesThereAndBack) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  EXPECT_EQ(to_hex(all).substr(0, 8), "00010203");
  EXPECT_EQ(to_hex(all).substr(504), "fcfdfeff");
  EXPECT_EQ(from_hex(to_hex(all)), all);
  EXPECT_EQ(to_hex(std::array<std::uint8_t, 3>{0, 0x7f, 0xa0}), "007fa0");
  EXPECT_EQ(from_hex(""), "");
}

TEST(Hex, IsReadOnlyAsItIsWritten) {
  for (const char* text : {"0", "000", "0g", "FF", "0 ", " 0", "0x", "-1"}) {
    EXPECT_EQ(from_hex(text), std::nullopt) << text;
  }
  EXPECT_EQ(from_hex(std::string_view{"0\0", 2}), std::nullopt);
}

}  // namespace
}  // namespace tb
