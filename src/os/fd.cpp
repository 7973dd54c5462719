// SPDX-License-Identifier: Apache-2.0
#include "os/fd.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <memory>
#include <vector>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

namespace tb::os {
namespace {

std::string read_all(const Fd& fd, std::size_t limit, const std::string& name) {
  std::string content;
  char buffer[4096];
  while (content.size() < limit) {
    const ssize_t n = check(::read(fd.get(), buffer, sizeof buffer), "read " + name);
    if (n == 0) break;
    content.append(buffer, static_cast<std::size_t>(n));
  }
  if (content.size() > limit) content.resize(limit);
  return content;
}

void write_once(const Fd& fd, std::string_view value, const std::string& name) {
  check(::write(fd.get(), value.data(), value.size()), "write " + name);
}

void write_all(const Fd& fd, std::string_view content, const std::string& name) {
  while (!content.empty()) {
    const ssize_t n = check(::write(fd.get(), content.data(), content.size()), "write " + name);
    content.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

Fd duplicate(const Fd& fd) {
  return Fd{check(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 3), "duplicate a descriptor")};
}

void set_nonblocking(const Fd& fd) {
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

std::string read_file(const std::string& path, std::size_t limit) {
  return read_file_at(AT_FDCWD, path.c_str(), limit);
}

std::string read_file_at(int dir, const char* name, std::size_t limit) {
  Fd fd{check(::openat(dir, name, O_RDONLY | O_CLOEXEC), std::string{"open "} + name)};
  return read_all(fd, limit, name);
}

void write_file(const std::string& path, std::string_view value) {
  write_file_at(AT_FDCWD, path.c_str(), value);
}

void write_file_at(int dir, const char* name, std::string_view value) {
  Fd fd{check(::openat(dir, name, O_WRONLY | O_CLOEXEC), std::string{"open "} + name)};
  write_once(fd, value, name);
}

void replace_file(const std::string& path, std::string_view content, unsigned mode) {
  const std::string temporary = path + ".new";
  {
    Fd fd{check(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode),
                "create " + temporary)};
    write_all(fd, content, temporary);
  }
  check(::rename(temporary.c_str(), path.c_str()), "rename " + temporary);
}

Fd sealed_memfd(const char* name, std::string_view content, bool executable) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int raw = executable ? ::memfd_create(name, flags | MFD_EXEC) : ::memfd_create(name, flags);
  if (raw < 0 && errno == EINVAL) raw = ::memfd_create(name, flags);  // before 6.3: no MFD_EXEC
  Fd fd{check(raw, "memfd_create")};
  write_all(fd, content, name);
  const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  check(::fcntl(fd.get(), F_ADD_SEALS, seals), "seal a memfd");
  return fd;
}

namespace {

// Never deeper than this many descriptors: a deeper directory is moved up to the top and emptied in
// another pass, so that a chain of 20,000 directories costs neither stack nor descriptors.
constexpr std::size_t kDepth = 32;

using Stream = std::unique_ptr<DIR, int (*)(DIR*)>;

// Opens a directory for emptying; a mode that locks its owner out is changed first. By descriptor:
// a link is never followed.
Stream open_to_empty(int parent, const char* name) {
  Fd path{::openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!path) return {nullptr, &::closedir};
  const std::string self = "/proc/self/fd/" + std::to_string(path.get());
  (void)!::chmod(self.c_str(), 0700);
  Fd fd{::openat(path.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!fd) return {nullptr, &::closedir};
  return {::fdopendir(fd.release()), &::closedir};
}

struct Level {
  Stream stream;
  std::string name;  // in the level above
};

// Empties the directory as far as it can. True: something was moved up, another pass is needed.
bool empty_once(const std::string& path, unsigned long& lifted) {
  std::vector<Level> levels;
  levels.push_back({open_to_empty(AT_FDCWD, path.c_str()), ""});
  if (!levels.back().stream) return false;
  bool moved = false;
  while (!levels.empty()) {
    const int here = ::dirfd(levels.back().stream.get());
    const dirent* entry = ::readdir(levels.back().stream.get());
    if (!entry) {
      const std::string name = levels.back().name;
      levels.pop_back();
      if (!levels.empty()) {
        ::unlinkat(::dirfd(levels.back().stream.get()), name.c_str(), AT_REMOVEDIR);
      }
      continue;
    }
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || ::unlinkat(here, name.c_str(), 0) == 0) continue;
    Stream child = open_to_empty(here, name.c_str());
    if (!child) continue;  // not a directory, or not ours: it stays
    if (levels.size() < kDepth) {
      levels.push_back({std::move(child), name});
      continue;
    }
    const std::string up = ".lifted-" + std::to_string(lifted++);
    const int top = ::dirfd(levels.front().stream.get());
    moved = ::renameat(here, name.c_str(), top, up.c_str()) == 0 || moved;
  }
  return moved;
}

}  // namespace

void remove_tree(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return;
  unsigned long lifted = 0;
  while (empty_once(path, lifted)) {
  }
  ::rmdir(path.c_str());
}

}  // namespace tb::os
