// SPDX-License-Identifier: Apache-2.0
#include "docker/engine.h"

#include <gtest/gtest.h>

#include "docker/records.h"
#include "os/test_dir.h"

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

TEST(Records, ComeBackAndKeepTheirTag) {
  os::TestDir dir;
  const Records records{dir / "docker"};
  Record record;
  record.label = std::string("odd\0label", 9);
  record.idle = Milliseconds{1234};
  records.put("some-id", record);
  const Records next{dir / "docker"};
  EXPECT_EQ(next.tag(), records.tag());
  const auto found = next.find("some-id");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->label, record.label);
  EXPECT_EQ(found->idle, record.idle);
  EXPECT_EQ(next.all().size(), 1u);
  next.remove("some-id");
  EXPECT_FALSE(next.find("some-id"));
}

}  // namespace
}  // namespace tb::docker
