// SPDX-License-Identifier: Apache-2.0
#include "os/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <filesystem>

#include "os/test_dir.h"

namespace tb::os {
namespace {

namespace fs = std::filesystem;

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

Fd open_here(const std::string& path, int flags) {
  return Fd{check(::open(path.c_str(), flags | O_CLOEXEC, 0600), "open " + path)};
}

void touch(const std::string& path) { open_here(path, O_WRONLY | O_CREAT); }

unsigned mode_of(const std::string& path) {
  struct stat info{};
  check(::lstat(path.c_str(), &info), "lstat " + path);
  return info.st_mode & 07777;
}

TEST(Fd, ClosesWhatItOwnsOnce) {
  const int raw = open_here("/dev/null", O_RDONLY).release();
  {
    Fd first{raw};
    Fd second{std::move(first)};
    EXPECT_FALSE(first);
    EXPECT_EQ(second.get(), raw);
    second = Fd{std::move(second)};
    EXPECT_TRUE(is_open(raw));
  }
  EXPECT_FALSE(is_open(raw));
}

TEST(Fd, AssignmentClosesTheOldOne) {
  Fd fd = open_here("/dev/null", O_RDONLY);
  const int old = fd.get();
  fd = open_here("/dev/zero", O_RDONLY);
  EXPECT_FALSE(is_open(old));
  EXPECT_TRUE(is_open(fd.get()));
  fd.reset();
  EXPECT_FALSE(fd);
  fd.reset();
}

TEST(Fd, ADuplicateIsClosedOnExecAndNeverAStandardStream) {
  const Fd fd = open_here("/dev/null", O_RDONLY);
  const Fd other = duplicate(fd);
  EXPECT_GE(other.get(), 3);
  EXPECT_NE(other.get(), fd.get());
  EXPECT_EQ(::fcntl(other.get(), F_GETFD), FD_CLOEXEC);
}

TEST(ReadFile, StopsAtTheLimit) {
  TestDir dir;
  replace_file(dir / "f", std::string(10000, 'a') + "b", 0600);
  EXPECT_EQ(read_file(dir / "f").size(), 10001u);
  EXPECT_EQ(read_file(dir / "f", 5), "aaaaa");
  EXPECT_EQ(read_file(dir / "f", 0), "");
  EXPECT_THROW(read_file(dir / "absent"), SystemError);
}

TEST(WriteFile, NeverCreatesAFile) {
  TestDir dir;
  EXPECT_THROW(write_file(dir / "absent", "1"), SystemError);
  EXPECT_FALSE(fs::exists(dir / "absent"));
  touch(dir / "there");
  write_file(dir / "there", "1");
  EXPECT_EQ(read_file(dir / "there"), "1");
}

TEST(ReplaceFile, LeavesTheOldOneWhole) {
  TestDir dir;
  replace_file(dir / "f", "old", 0600);
  const Fd old = open_here(dir / "f", O_RDONLY);
  replace_file(dir / "f", "newer and longer", 0600);
  char buffer[32] = {};
  EXPECT_EQ(::read(old.get(), buffer, sizeof buffer), 3);
  EXPECT_STREQ(buffer, "old");
  EXPECT_EQ(read_file(dir / "f"), "newer and longer");
  EXPECT_EQ(mode_of(dir / "f"), 0600u);
  EXPECT_EQ(std::distance(fs::directory_iterator{dir.path()}, {}), 1);
}

TEST(ReplaceFile, ChangesNothingWhenItFails) {
  TestDir dir;
  replace_file(dir / "f", "old", 0600);
  fs::create_directory(dir / "f.new");  // in the way
  EXPECT_THROW(replace_file(dir / "f", "new", 0600), SystemError);
  EXPECT_EQ(read_file(dir / "f"), "old");
}

TEST(ReplaceFile, GoesOnOverWhatAnInterruptedOneLeft) {
  TestDir dir;
  replace_file(dir / "f.new", std::string(1000, 'x'), 0600);
  replace_file(dir / "f", "new", 0600);
  EXPECT_EQ(read_file(dir / "f"), "new");
  EXPECT_FALSE(fs::exists(dir / "f.new"));
}

TEST(SealedMemfd, CannotBeChangedByAnybody) {
  const Fd fd = sealed_memfd("x", "content", false);
  const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  EXPECT_EQ(::fcntl(fd.get(), F_GET_SEALS) & seals, seals);
  EXPECT_EQ(::pwrite(fd.get(), "y", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(fd.get(), 0), -1);
  EXPECT_EQ(::ftruncate(fd.get(), 100), -1);
  EXPECT_EQ(::mmap(nullptr, 7, PROT_WRITE, MAP_SHARED, fd.get(), 0), MAP_FAILED);
  char buffer[16] = {};
  EXPECT_EQ(::pread(fd.get(), buffer, sizeof buffer, 0), 7);
  EXPECT_STREQ(buffer, "content");
  EXPECT_EQ(::fcntl(fd.get(), F_GETFD), FD_CLOEXEC);
}

TEST(SealedMemfd, MayBeEmptyOrExecutable) {
  struct stat info{};
  const Fd empty = sealed_memfd("x", "", false);
  ASSERT_EQ(::fstat(empty.get(), &info), 0);
  EXPECT_EQ(info.st_size, 0);
  const Fd program = sealed_memfd("x", "#!", true);
  ASSERT_EQ(::fstat(program.get(), &info), 0);
  EXPECT_NE(info.st_mode & 0111, 0u);
}

}  // namespace
}  // namespace tb::os
