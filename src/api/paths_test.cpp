// SPDX-License-Identifier: Apache-2.0
#include "api/paths.h"

#include <gtest/gtest.h>

#include "api/errors.h"

namespace tb::api {
namespace {

TEST(WorkspacePath, TakesOrdinaryNames) {
  for (const char* name : {"a", "a.txt", "sub/dir/a.txt", "a..b", "...", ".hidden", "-rf", " a ",
                           "a\nb", "t\xc3\xa4st.txt", "\xe2\x80\xa6", "a\"b", "a%2e%2e", "x;/y"}) {
    EXPECT_EQ(workspace_path(name), name);
  }
}

TEST(WorkspacePath, DropsRepeatedSlashes) { EXPECT_EQ(workspace_path("a//b///c"), "a/b/c"); }

TEST(WorkspacePath, F01RefusesWhatClimbs) {
  for (const char* name : {"../../etc/passwd", "/etc/passwd", "..", "a/..", "a/../b", "..\\x",
                           "a\\..\\x", "/workspace/../etc", "....//../x", "./a", "a/.", "."}) {
    EXPECT_THROW(workspace_path(name), Refusal) << name;
  }
}

TEST(WorkspacePath, F02RefusesDisguisedOnes) {
  const std::string nul{"a\0b", 3};
  for (const std::string& name :
       {nul, std::string{"\xc0\xae\xc0\xae/x"}, std::string{"\uff0e\uff0e/x"},
        std::string{"..\uff0fx"}, std::string{"\u2025/x"}, std::string{"\xff"}}) {
    EXPECT_THROW(workspace_path(name), Refusal) << name;
  }
}

TEST(WorkspacePath, F22RefusesEmptyAndTooLong) {
  EXPECT_THROW(workspace_path(""), Refusal);
  EXPECT_THROW(workspace_path("/"), Refusal);
  EXPECT_THROW(workspace_path("a/"), Refusal);
  EXPECT_THROW(workspace_path(std::string(5000, 'a')), Refusal);
  EXPECT_THROW(workspace_path(std::string(256, 'a')), Refusal);
  EXPECT_EQ(workspace_path(std::string(255, 'a')).size(), 255u);
}

}  // namespace
}  // namespace tb::api
