// SPDX-License-Identifier: Apache-2.0
#include "docker/engine.h"

#include <gtest/gtest.h>

namespace tb::docker {
namespace {

TEST(MakeTar, SaysNameModeOwnerSizeAndItsOwnChecksum) {
  const std::string tar = make_tar({{"guest", 0755, 0, 0, "abc"}, {"w/", 0700, 1000, 1001, {}}});
  ASSERT_EQ(tar.size(), 512u * 5);
  EXPECT_EQ(tar.substr(0, 6), std::string("guest\0", 6));
  EXPECT_EQ(tar.substr(100, 7), "0000755");
  EXPECT_EQ(tar.substr(124, 11), "00000000003");
  EXPECT_EQ(tar[156], '0');
  EXPECT_EQ(tar.substr(512, 3), "abc");
  const std::string second = tar.substr(1024, 512);
  EXPECT_EQ(second.substr(108, 7), "0001750");
  EXPECT_EQ(second.substr(116, 7), "0001751");
  EXPECT_EQ(second[156], '5');
  unsigned sum = 8 * ' ';
  for (std::size_t i = 0; i < 512; ++i) {
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(second[i]);
  }
  EXPECT_EQ(std::stoul(second.substr(148, 6), nullptr, 8), sum);
}

TEST(Escape, LeavesNothingThatAQueryWouldMisread) {
  EXPECT_EQ(escape("a-Z.0_~"), "a-Z.0_~");
  EXPECT_EQ(escape("{\"a b\"}/&?%"), "%7B%22a%20b%22%7D%2F%26%3F%25");
}

}  // namespace
}  // namespace tb::docker
