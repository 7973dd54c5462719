// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <filesystem>
#include <functional>

#include "os/fd.h"
#include "os/test_dir.h"

namespace tb::os {
namespace {

namespace fs = std::filesystem;

void make_file(const std::string& path) {
  Fd{check(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644), "create " + path)};
}

unsigned mode_of(const std::string& path) {
  struct stat info{};
  check(::lstat(path.c_str(), &info), "lstat " + path);
  return info.st_mode & 07777;
}

// Directories in one another, deeper than a path can say.
void make_chain(const std::string& top, int depth) {
  check(::mkdir(top.c_str(), 0700), "mkdir " + top);
  Fd at{check(::open(top.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open " + top)};
  for (int i = 0; i < depth; ++i) {
    check(::mkdirat(at.get(), "d", 0700), "mkdirat");
    Fd{check(::openat(at.get(), "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600), "create")};
    at = Fd{check(::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC), "openat")};
  }
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator{"/proc/self/fd"}, fs::directory_iterator{}));
}

// Runs `task` as somebody without rights, for five seconds at most; true when it came to an end.
bool ends_as_nobody(const std::function<void()>& task) {
  const pid_t child = check(::fork(), "fork");
  if (child == 0) {
    ::alarm(5);
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(1);
    task();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(RemoveTree, RemovesAllKindsOfThings) {
  TestDir dir;
  const std::string top = dir / "top";
  fs::create_directories(top + "/a/b/c");
  make_file(top + "/file");
  make_file(top + "/a/b/.hidden");
  ASSERT_EQ(::mkfifo((top + "/a/fifo").c_str(), 0600), 0);
  fs::create_symlink("nowhere", top + "/a/dangling");
  fs::create_symlink(".", top + "/a/b/loop");
  remove_tree(top);
  EXPECT_FALSE(fs::exists(fs::symlink_status(top)));
}

TEST(RemoveTree, AbsentIsFine) {
  TestDir dir;
  remove_tree(dir / "absent");
  remove_tree(dir / "absent/deeper");
}

TEST(RemoveTree, RemovesASingleFile) {
  TestDir dir;
  make_file(dir / "f");
  remove_tree(dir / "f");
  EXPECT_FALSE(fs::exists(dir / "f"));
}

TEST(RemoveTree, NeverFollowsALink) {
  TestDir dir;
  fs::create_directories(dir / "outside/sub");
  make_file(dir / "outside/precious");
  ASSERT_EQ(::chmod((dir / "outside").c_str(), 0755), 0);
  fs::create_directory(dir / "top");
  fs::create_symlink(dir / "outside", dir / "top/link");
  fs::create_symlink(dir / "outside/precious", dir / "top/file");
  fs::create_symlink(dir / "outside", dir / "link");
  remove_tree(dir / "top");
  remove_tree(dir / "link");
  EXPECT_FALSE(fs::exists(fs::symlink_status(dir / "top")));
  EXPECT_FALSE(fs::exists(fs::symlink_status(dir / "link")));
  EXPECT_TRUE(fs::exists(dir / "outside/precious"));
  EXPECT_TRUE(fs::exists(dir / "outside/sub"));
  EXPECT_EQ(mode_of(dir / "outside"), 0755u);
}

TEST(RemoveTree, ModesThatLockTheOwnerOutDontStopIt) {
  TestDir dir;
  fs::create_directories(dir / "top/a/b/c");
  make_file(dir / "top/a/b/f");
  for (const char* name : {"top/a/b/c", "top/a/b", "top/a", "top"}) {
    ASSERT_EQ(::chmod((dir / name).c_str(), 0), 0);
  }
  remove_tree(dir / "top");
  EXPECT_FALSE(fs::exists(dir / "top"));
}

TEST(RemoveTree, AChainOfTwoThousandDirectoriesNeedsFewDescriptors) {
  TestDir dir;
  make_chain(dir / "top", 2000);
  const std::size_t before = open_descriptors();
  remove_tree(dir / "top");
  EXPECT_FALSE(fs::exists(dir / "top"));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(RemoveTree, NamesThatItUsesItselfDontStopIt) {
  TestDir dir;
  make_chain(dir / "top", 100);
  for (int i = 0; i < 5; ++i) {
    fs::create_directories(dir / ("top/.lifted-" + std::to_string(2 * i) + "/full"));
    make_file(dir / ("top/.lifted-" + std::to_string(2 * i + 1)));
  }
  remove_tree(dir / "top");
  EXPECT_FALSE(fs::exists(dir / "top"));
}

TEST(RemoveTree, ManyEntriesInOneDirectory) {
  TestDir dir;
  fs::create_directory(dir / "top");
  for (int i = 0; i < 2000; ++i) {
    const std::string name = dir / ("top/" + std::to_string(i));
    i % 4 == 0 ? static_cast<void>(fs::create_directory(name)) : make_file(name);
  }
  remove_tree(dir / "top");
  EXPECT_FALSE(fs::exists(dir / "top"));
}

// A tree with somebody else's directory in it, as a keeper without root may find one.
TEST(RemoveTree, EndsAlthoughSomethingCannotBeRemoved) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to make somebody else's files";
  TestDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  fs::create_directories(dir / "top/theirs");
  make_file(dir / "top/theirs/file");
  make_file(dir / "top/ours");
  ASSERT_EQ(::chown((dir / "top").c_str(), 65534, 65534), 0);
  EXPECT_TRUE(ends_as_nobody([&] { remove_tree(dir / "top"); }));
  EXPECT_FALSE(fs::exists(dir / "top/ours"));
  EXPECT_TRUE(fs::exists(dir / "top/theirs/file"));
}

TEST(RemoveTree, ALinkThatCannotBeRemovedIsNotFollowedEither) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to make somebody else's files";
  TestDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  make_file(dir / "precious");
  ASSERT_EQ(::chown((dir / "precious").c_str(), 65534, 65534), 0);
  fs::create_directories(dir / "top/sticky");
  fs::create_symlink(dir / "precious", dir / "top/sticky/link");
  ASSERT_EQ(::chmod((dir / "top/sticky").c_str(), 01777), 0);
  ASSERT_EQ(::chown((dir / "top").c_str(), 65534, 65534), 0);
  const unsigned before = mode_of(dir / "precious");
  EXPECT_TRUE(ends_as_nobody([&] { remove_tree(dir / "top"); }));
  EXPECT_EQ(mode_of(dir / "precious"), before);
}

TEST(RemoveTree, ReadOnlyDirectoriesDeepDownGoAwayWithoutRoot) {
  TestDir dir;
  ASSERT_EQ(::chmod(dir.path().c_str(), 0777), 0);
  const auto task = [&] {
    make_chain(dir / "top", 40);
    Fd at{::open((dir / "top").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    for (int i = 0; i < 40; ++i) {  // a directory that may not be written to can't be moved
      Fd next{::openat(at.get(), "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
      ::fchmod(next.get(), 0500);
      at = std::move(next);
    }
    remove_tree(dir / "top");
  };
  if (::geteuid() == 0) {
    EXPECT_TRUE(ends_as_nobody(task));
  } else {
    task();
  }
  EXPECT_FALSE(fs::exists(dir / "top"));
}

}  // namespace
}  // namespace tb::os
