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

// Opens a directory for emptying; a mode that locks the owner out is changed first.
DIR* open_to_empty(int parent, const char* name) {
  (void)!::fchmodat(parent, name, 0700, 0);
  const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return nullptr;
  DIR* stream = ::fdopendir(fd);
  if (!stream) ::close(fd);
  return stream;
}

}  // namespace

void remove_tree(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) return;
  if (!S_ISDIR(info.st_mode)) {
    ::unlink(path.c_str());
    return;
  }
  // Never deeper than kDepth descriptors: a deeper directory is moved up to the root and emptied
  // there, so that a chain of 20,000 directories costs neither stack nor descriptors.
  constexpr std::size_t kDepth = 32;
  std::vector<DIR*> open;
  std::vector<std::string> names;
  DIR* root = open_to_empty(AT_FDCWD, path.c_str());
  if (!root) return;
  open.push_back(root);
  unsigned long lifted = 0;
  while (!open.empty()) {
    DIR* current = open.back();
    dirent* entry = ::readdir(current);
    if (!entry) {
      ::closedir(current);
      open.pop_back();
      if (!open.empty()) {
        ::unlinkat(::dirfd(open.back()), names.back().c_str(), AT_REMOVEDIR);
        names.pop_back();
        ::rewinddir(open.back());
      }
      continue;
    }
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (::unlinkat(::dirfd(current), entry->d_name, 0) == 0) continue;
    if (errno != EISDIR && errno != EPERM) continue;
    if (open.size() >= kDepth) {
      const std::string lifted_name = ".lifted-" + std::to_string(lifted++);
      ::renameat(::dirfd(current), entry->d_name, ::dirfd(open.front()), lifted_name.c_str());
      continue;
    }
    if (DIR* child = open_to_empty(::dirfd(current), entry->d_name)) {
      names.emplace_back(name);
      open.push_back(child);
    }
  }
  ::rmdir(path.c_str());
}

}  // namespace tb::os
