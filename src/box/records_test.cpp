// SPDX-License-Identifier: Apache-2.0
#include "box/records.h"

#include <gtest/gtest.h>

#include "os/test_dir.h"

namespace tb::box {
namespace {

TEST(Records, ComeBackAndKeepTheirTag) {
  os::TestDir dir;
  const Records records{dir / "boxes"};
  Record record;
  record.machine = "another-name";
  record.label = std::string("odd\0label", 9);
  record.idle = Milliseconds{1234};
  records.put("some-id", record);
  const Records next{dir / "boxes"};
  EXPECT_EQ(next.tag(), records.tag());
  const auto found = next.find("some-id");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->machine, record.machine);
  EXPECT_EQ(found->label, record.label);
  EXPECT_EQ(found->idle, record.idle);
  EXPECT_EQ(next.all().size(), 1u);
  next.remove("some-id");
  EXPECT_FALSE(next.find("some-id"));
}

}  // namespace
}  // namespace tb::box
