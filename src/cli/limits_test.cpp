// SPDX-License-Identifier: Apache-2.0
#include "cli/limits.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tb::cli {
namespace {

TEST(LimitsFile, SaysWhoHasOthers) {
  const LimitsTable table = parse_limits(
      "# large ones\n\ntenant acme requests=5/s, sessions=2\n  key k1 bytes=1g/day\r\n"
      "user acme/al/ice processes=3\nuser /bob requests=0/s\n",
      "f");
  ASSERT_EQ(table.size(), 4u);
  EXPECT_EQ(to_text(table.at({limits::Scope::tenant, "acme"})), "requests=5/s,sessions=2");
  EXPECT_EQ(table.at({limits::Scope::key, "k1"}).bytes.amount, 1u << 30);
  EXPECT_EQ(table.at({limits::Scope::user, "acme\nal/ice"}).processes, 3u);
  EXPECT_TRUE(table.contains({limits::Scope::user, "\nbob"}));
}

TEST(LimitsFile, TellsEveryLineThatIsWrong) {
  try {
    parse_limits(
        "tenant a requests=1/s\nteam x sessions=1\nkey\nuser bob sessions=1\n"
        "tenant a sessions=1\nkey k sessions=x\n",
        "file");
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find("file:1:"), text.npos) << text;
    for (const char* place : {"file:2:", "file:3:", "file:4:", "file:5:", "file:6:"}) {
      EXPECT_NE(text.find(place), text.npos) << place << text;
    }
  }
}

}  // namespace
}  // namespace tb::cli
