// SPDX-License-Identifier: Apache-2.0
// Names in a tree that its owner may be changing at the same time: made, given and taken away by
// descriptor, through no link.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>

#include "guest/files_wire.h"

namespace tb::guest::files {

constexpr mode_t kFileMode = 0644;
constexpr mode_t kDirectoryMode = 0755;

struct File {
  int fd = -1;
  File() = default;
  explicit File(int opened) : fd(opened) {}
  File(File&& other) noexcept : fd(other.fd) { other.fd = -1; }
  File& operator=(File&& other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~File() {
    if (fd >= 0) ::close(fd);
  }
  explicit operator bool() const { return fd >= 0; }
  int release() { return std::exchange(fd, -1); }
};

Reason reason_of(int number);

// Splits into the directory (may be empty) and the last name.
struct Split {
  std::string directory;
  std::string name;
};
Split split(const std::string& path);

bool plain_name(const std::string& name);

// The directory `path` below `root`, as O_PATH; what is missing of it is made. One component at a
// time, each opened beneath the one before. -1: errno.
int make_directories(int root, const std::string& path, mode_t mode = kDirectoryMode);

// Gives a file without a name this one; one that is taken is replaced in one step, or is EEXIST.
bool give_name(int file, int directory, const std::string& name, bool replaces);

// Removes a directory with all that is in it, however deep. False: errno says why not all of it.
// `go_on` is asked now and then; when it says false that is ECANCELED.
bool remove_tree(int parent, const std::string& name, const std::function<bool()>& go_on);

}  // namespace tb::guest::files
