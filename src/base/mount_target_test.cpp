// SPDX-License-Identifier: Apache-2.0
#include "base/mount_target.h"

#include <gtest/gtest.h>

namespace tb {
namespace {

TEST(MountTarget, TakesPlacesOfItsOwnAndBelowTheWritableOnes) {
  for (const char* path : {"/data", "/mnt/models", "/workspace/in", "/home/sandboxuser/.cache",
                           "/tmp/x", "/sandbox/tools", "/opt/a b", "/workspace", "/srv/\xc3\xa9",
                           "/binary", "/devices", "/var/lib/data"}) {
    EXPECT_EQ(problem_of_target(path), "") << path;
  }
}

TEST(MountTarget, RefusesWhatASandboxIsMadeOf) {
  for (const char* path : {"",
                           "/",
                           "data",
                           "//",
                           "/proc",
                           "/proc/1",
                           "/sys/fs",
                           "/dev",
                           "/dev/shm",
                           "/etc",
                           "/etc/passwd",
                           "/usr/bin",
                           "/bin",
                           "/lib64/x",
                           "/run/x",
                           "/boot",
                           "/home",
                           "/home/sandboxuser",
                           "/tmp",
                           "/sandbox",
                           "/sandbox/workspace",
                           "/sandbox/workspace/x",
                           "/var/empty",
                           "/var/lib/unreadable"}) {
    EXPECT_NE(problem_of_target(path), "") << path;
  }
}

TEST(MountTarget, RefusesPathsThatLeadElsewhere) {
  for (const char* path : {"/data/", "/data//x", "/data/../etc", "/..", "/.", "/data/.", "/a\nb",
                           "/a\x7f", "/./etc", "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q"}) {
    EXPECT_NE(problem_of_target(path), "") << path;
  }
  EXPECT_NE(problem_of_target("/" + std::string(255, 'x')), "");
  EXPECT_NE(problem_of_target(std::string_view{"/a\0b", 4}), "");
}

TEST(MountTarget, KnowsWhatIsInsideOfWhat) {
  EXPECT_TRUE(targets_touch("/data", "/data"));
  EXPECT_TRUE(targets_touch("/data", "/data/x"));
  EXPECT_TRUE(targets_touch("/workspace/a/b", "/workspace/a"));
  EXPECT_FALSE(targets_touch("/data", "/data2"));
  EXPECT_FALSE(targets_touch("/a/b", "/a/c"));
}

}  // namespace
}  // namespace tb
