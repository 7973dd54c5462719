// SPDX-License-Identifier: Apache-2.0
#include "e2b/told_output.h"

#include <gtest/gtest.h>

#include "os/test_dir.h"

namespace tb::e2b {
namespace {

using sandbox::Stream;

TEST(ToldOutput, IsKeptInTheOrderInWhichItCame) {
  const os::TestDir dir;
  ToldOutput output{dir.path() + "/1", {}};
  output.open();
  output.append(Stream::out, "one ");
  output.append(Stream::err, "two ");
  output.append(Stream::err, "");
  output.append(Stream::out, "three");
  EXPECT_EQ(output.kept().read(Stream::all, 0, 100), "one two three");
  EXPECT_EQ(output.kept().read(Stream::out, 0, 100), "one three");
  EXPECT_FALSE(output.kept().at_end(Stream::out));
  output.end();
  EXPECT_TRUE(output.kept().at_end(Stream::all));
}

TEST(ToldOutput, GoesOnWhereAnEarlierServerStopped) {
  const os::TestDir dir;
  {
    ToldOutput before{dir.path() + "/1", {}};
    before.open();
    before.append(Stream::out, "before ");
  }
  ToldOutput output{dir.path() + "/1", {}};
  output.open();
  output.append(Stream::out, "after");
  EXPECT_EQ(output.kept().read(Stream::out, 0, 100), "before after");
  EXPECT_EQ(output.kept().total(Stream::out), 12u);
}

}  // namespace
}  // namespace tb::e2b
