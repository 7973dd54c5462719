// SPDX-License-Identifier: Apache-2.0
#include "base/sha1.h"

#include <gtest/gtest.h>

#include <string>

namespace tb {
namespace {

std::string hex(std::string_view text) {
  std::string digits;
  for (const std::uint8_t byte : sha1(text)) {
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

// The vectors of NIST; the others were told by sha1sum.
TEST(Sha1, AgreesWithTheStandard) {
  EXPECT_EQ(hex(""), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  EXPECT_EQ(hex("abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
  EXPECT_EQ(hex(std::string(1000000, 'a')), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

// Around the place where the length no longer fits into the last block.
TEST(Sha1, KnowsEveryLengthOfTail) {
  EXPECT_EQ(hex(std::string(55, 'x')), "cef734ba81a024479e09eb5a75b6ddae62e6abf1");
  EXPECT_EQ(hex(std::string(56, 'x')), "901305367c259952f4e7af8323f480d59f81335b");
  EXPECT_EQ(hex(std::string(63, '\xff')), "b5419e99e3ea50f812d56149e29b6d7db7bfc70e");
  EXPECT_EQ(hex(std::string(64, '\xff')), "ffc6261e487efa8c7442069f71acfc4aa826993d");
}

}  // namespace
}  // namespace tb
