// SPDX-License-Identifier: Apache-2.0
#include "sandbox/paths.h"

#include <gtest/gtest.h>

namespace tb::sandbox {
namespace {

TEST(FindPath, KnowsTheWorkspaceByItsNames) {
  for (const char* name : {"", ".", "/workspace", "/workspace/", "/workspace//", "./"}) {
    EXPECT_EQ(find_path(name), "") << name;
  }
}

TEST(FindPath, IsRelativeToTheWorkspace) {
  for (const char* name : {"a/b", "./a/b", "/workspace/a/b", "/workspace//a/b/", "a//b//"}) {
    EXPECT_EQ(find_path(name), "a/b") << name;
  }
  EXPECT_EQ(find_path("workspace"), "workspace");
}

TEST(FindPath, RefusesWhatIsElsewhere) {
  for (const char* name : {"/", "/etc/passwd", "/workspaces/a", "..", "./..", "a/../b", "a/./b",
                           "/workspace/../etc", "/workspace/..", "././a"}) {
    EXPECT_EQ(find_path(name), std::nullopt) << name;
  }
}

}  // namespace
}  // namespace tb::sandbox
