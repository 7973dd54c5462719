// SPDX-License-Identifier: Apache-2.0
#include "guest/tree.h"

#include <dirent.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <vector>

#include "base/utf8.h"

namespace tb::guest::files {
namespace {

constexpr std::size_t kMaxDepth = 200;  // open directories at once
constexpr int kRaces = 16;              // openat2 gives up with EAGAIN when a rename disturbs it

// A large file with holes takes the room that is allocated for it.
std::uint64_t room_of(const struct stat& info) {
  constexpr std::uint64_t kWorthLooking = 64 << 10;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  const auto allocated = static_cast<std::uint64_t>(info.st_blocks) * 512;
  return size > kWorthLooking ? std::min(size, allocated) : size;
}

// The tenant may set any time: beyond what 64 bits of nanoseconds hold (1677 to 2262), the end.
std::int64_t nanoseconds(const timespec& time) {
  constexpr std::int64_t kSecond = 1000000000;
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max() / kSecond - 1;
  return std::clamp<std::int64_t>(time.tv_sec, -kLast, kLast) * kSecond + time.tv_nsec;
}

bool is_dots(const char* name) {
  return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

DIR* read_directory(int directory, const char* name) {
  const int fd =
      open_beneath(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS);
  if (fd < 0) return nullptr;
  DIR* stream = ::fdopendir(fd);
  if (!stream) ::close(fd);
  return stream;
}

}  // namespace

int open_beneath(int directory, const std::string& path, int flags, mode_t mode,
                 std::uint64_t more) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags) | O_CLOEXEC;
  how.mode = mode;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV | more;
  long fd = -1;
  for (int i = 0; i < kRaces; ++i) {
    fd = ::syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how);
    if (fd >= 0 || errno != EAGAIN) break;
  }
  return static_cast<int>(fd);
}

int open_directory(int root, const std::string& path) {
  return open_beneath(root, path.empty() ? "." : path, O_PATH | O_DIRECTORY);
}

Entry describe(const std::string& name, const struct stat& info) {
  Entry entry;
  entry.name = name;
  entry.type = S_ISREG(info.st_mode)   ? Type::file
               : S_ISDIR(info.st_mode) ? Type::directory
               : S_ISLNK(info.st_mode) ? Type::link
                                       : Type::other;
  entry.mode = info.st_mode;
  entry.size = static_cast<std::uint64_t>(info.st_size);
  entry.modified_ns = static_cast<std::uint64_t>(nanoseconds(info.st_mtim));
  return entry;
}

bool each_entry(int directory, std::uint64_t most, const std::function<bool(Entry)>& take) {
  DIR* stream = read_directory(directory, ".");
  if (!stream) return false;
  std::uint64_t seen = 0;
  bool complete = true;
  while (const dirent* item = ::readdir(stream)) {
    if (is_dots(item->d_name)) continue;
    if (++seen > most) {
      complete = false;
      break;
    }
    struct stat info{};
    if (::fstatat(::dirfd(stream), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!take(describe(item->d_name, info))) break;
  }
  ::closedir(stream);
  return complete;
}

std::string name_shown_as(int directory, const std::string& shown) {
  constexpr std::uint64_t kLookedAt = 100000;
  std::string found;
  if (shown.find("\xef\xbf\xbd") == std::string::npos) return found;
  each_entry(directory, kLookedAt, [&](Entry entry) {
    std::string name = entry.name;
    if (to_utf8(std::move(name)) != shown) return true;
    found = entry.name;
    return false;
  });
  return found;
}

Tally tally_tree(int root, std::uint64_t most) {
  Tally tally;
  std::uint64_t seen = 0;
  std::vector<DIR*> open;
  if (DIR* top = read_directory(root, ".")) open.push_back(top);
  while (!open.empty()) {
    DIR* const stream = open.back();
    const dirent* item = seen < most ? ::readdir(stream) : nullptr;
    if (!item) {
      ::closedir(stream);
      open.pop_back();
      continue;
    }
    if (is_dots(item->d_name)) continue;
    if (++seen == most) tally.complete = false;
    struct stat info{};
    if (::fstatat(::dirfd(stream), item->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISREG(info.st_mode)) {
      ++tally.files;
      tally.bytes += room_of(info);
    } else if (S_ISDIR(info.st_mode)) {
      DIR* below =
          open.size() < kMaxDepth ? read_directory(::dirfd(stream), item->d_name) : nullptr;
      if (below) {
        open.push_back(below);
      } else {
        tally.complete = false;
      }
    }
  }
  return tally;
}

}  // namespace tb::guest::files
