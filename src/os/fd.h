// SPDX-License-Identifier: Apache-2.0
// A file descriptor with one owner, and the few calls on descriptors that many rooms need.
#pragma once

#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace tb::os {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

// Another descriptor for the same file, closed on exec.
Fd duplicate(const Fd& fd);

// For all who share its open file.
void set_nonblocking(const Fd& fd);

// The whole content of a small file, at most `limit` bytes of it.
std::string read_file(const std::string& path, std::size_t limit = 1 << 20);
std::string read_file_at(int dir, const char* name, std::size_t limit = 1 << 20);

// Replaces a control file's value in one write(2), as cgroup and procfs files want it.
void write_file(const std::string& path, std::string_view value);
void write_file_at(int dir, const char* name, std::string_view value);

// Writes a file whole or not at all: a temporary name, then rename(2).
void replace_file(const std::string& path, std::string_view content, unsigned mode);

// An anonymous file that nobody can change any more.
Fd sealed_memfd(const char* name, std::string_view content, bool executable);

// Removes a tree without following links or recursing on the stack; absent is fine.
void remove_tree(const std::string& path);

}  // namespace tb::os
