// SPDX-License-Identifier: Apache-2.0
#include "guest/names.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "guest/tree.h"

namespace tb::guest::files {
namespace {

// A name that nobody guesses.
bool secret_name(const char* format, char* to, std::size_t size) {
  unsigned long long random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) return false;
  std::snprintf(to, size, format, random);
  return true;
}

bool link_file(int file, int directory, const char* name) {
  char source[32];
  std::snprintf(source, sizeof source, "/proc/self/fd/%d", file);
  return ::linkat(AT_FDCWD, source, directory, name, AT_SYMLINK_FOLLOW) == 0;
}

// Empties a directory from its leaves. What is too deep to keep all directories above it open is
// moved up to the top first.
class Remover {
 public:
  Remover(int parent, std::string name, const std::function<bool()>& go_on)
      : parent_(parent), name_(std::move(name)), go_on_(go_on) {}
  ~Remover() {
    for (const Level& level : levels_) ::closedir(level.stream);
  }

  bool run() {
    if (!enter(parent_, name_)) return false;
    while (!levels_.empty()) {
      errno = 0;
      const dirent* item = ::readdir(levels_.back().stream);
      if (!item && errno != 0) return false;
      if (!item) {
        if (!leave()) return false;
      } else if (!is_dots(item->d_name)) {
        if (++seen_ % 256 == 0 && !go_on_()) return errno = ECANCELED, false;
        if (!take(item->d_name, item->d_type == DT_DIR)) return false;
      }
    }
    return true;
  }

 private:
  static constexpr std::size_t kDepth = 100;
  static constexpr int kRounds = 16;  // against one who fills while we empty

  struct Level {
    DIR* stream;
    std::string name;
    int rounds = 0;
  };

  static bool is_dots(const char* name) {
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
  }
  int top() const { return ::dirfd(levels_.back().stream); }

  bool enter(int directory, const std::string& name) {
    const int fd =
        open_beneath(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS);
    if (fd < 0) return false;
    DIR* stream = ::fdopendir(fd);
    if (!stream) return ::close(fd), false;
    levels_.push_back({stream, name});
    return true;
  }

  bool take(const std::string& name, bool directory) {
    if (!directory) {
      if (::unlinkat(top(), name.c_str(), 0) == 0 || errno == ENOENT) return true;
      if (errno != EISDIR) return false;
    }
    if (::unlinkat(top(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return true;
    if (errno == ENOTDIR) return true;  // it was one; the next round meets what it is now
    if (errno != ENOTEMPTY && errno != EEXIST) return false;
    if (levels_.size() < kDepth) return enter(top(), name) || errno == ENOENT || errno == ENOTDIR;
    char moved[48];
    if (!secret_name(".removed-%016llx", moved, sizeof moved)) return false;
    levels_.front().rounds = 0;
    return ::renameat(top(), name.c_str(), ::dirfd(levels_.front().stream), moved) == 0 ||
           errno == ENOENT;
  }

  bool leave() {
    Level& level = levels_.back();
    const bool outermost = levels_.size() == 1;
    const int above = outermost ? parent_ : ::dirfd(levels_[levels_.size() - 2].stream);
    const bool gone = ::unlinkat(above, level.name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT;
    if (!gone && errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) return false;
    if (!gone && errno != ENOTDIR) {
      if (++level.rounds > kRounds) return errno = ENOTEMPTY, false;
      ::rewinddir(level.stream);
      return true;
    }
    ::closedir(level.stream);
    levels_.pop_back();
    return true;
  }

  int parent_;
  std::string name_;
  const std::function<bool()>& go_on_;
  std::vector<Level> levels_;
  std::size_t seen_ = 0;
};

bool exchange(int directory, const char* one, const char* other) {
  return ::renameat2(directory, one, directory, other, RENAME_EXCHANGE) == 0;
}

bool is_file(int directory, const char* name) {
  struct stat info{};
  return ::fstatat(directory, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode);
}

// The first gets the name of the second. btrfs writes a file out when it replaces another, while
// the caller waits; not when both change places. Only files do: who has something in a directory
// should find it in its place all the time.
bool put_in_place(int directory, const char* temporary, const char* name) {
  if (!is_file(directory, name) || !exchange(directory, temporary, name)) {
    return ::renameat(directory, temporary, directory, name) == 0;
  }
  if (::unlinkat(directory, temporary, 0) == 0 || errno == ENOENT) return true;
  const int why = errno;  // somebody has just put a directory there, or the disk is full
  if (!exchange(directory, temporary, name)) {  // and has taken our file away again
    ::renameat2(directory, temporary, directory, name, RENAME_NOREPLACE);
  }
  errno = why;
  return false;
}

}  // namespace

Reason reason_of(int number) {
  switch (number) {
    case ENOENT: return Reason::not_found;
    case ENXIO:  // a socket, or a FIFO without a reader
    case EISDIR: return Reason::not_regular;
    case EXDEV:
    case ELOOP: return Reason::outside;
    case ENOTDIR: return Reason::blocked;
    case EACCES:
    case EPERM: return Reason::denied;
    case ENOSPC:
    case EDQUOT: return Reason::full;
    case ENAMETOOLONG:
    case EINVAL: return Reason::bad_name;
    case EEXIST: return Reason::exists;
    case ENOTEMPTY: return Reason::not_empty;
    default: return Reason::failed;
  }
}

Split split(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {{}, path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

bool plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= kMaxName;
}

int make_directories(int root, const std::string& path, mode_t mode) {
  File at{open_directory(root, {})};
  std::size_t start = 0;
  while (at && start < path.size()) {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    const std::string name = path.substr(start, slash - start);
    start = slash + 1;
    if (name.empty()) continue;
    if (!plain_name(name)) return errno = EINVAL, -1;
    if (::mkdirat(at.fd, name.c_str(), mode) != 0 && errno != EEXIST) return -1;
    at = File{open_beneath(at.fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, RESOLVE_NO_SYMLINKS)};
  }
  return at.release();
}

// linkat(2) replaces nothing: a name that is taken is replaced by rename(2), in one step. The
// tenant can't guess the name between the two and take it; to see and remove it ends the upload,
// since a file that has lost its first name gets no other.
bool give_name(int file, int directory, const std::string& name, bool replaces) {
  if (link_file(file, directory, name.c_str())) return true;
  if (errno != EEXIST || !replaces) return false;
  char temporary[48];
  if (!secret_name(".upload-%016llx.tmp", temporary, sizeof temporary)) return false;
  if (!link_file(file, directory, temporary)) return false;
  if (put_in_place(directory, temporary, name.c_str())) return true;
  const int why = errno;
  ::unlinkat(directory, temporary, 0);
  errno = why;
  return false;
}

bool remove_tree(int parent, const std::string& name, const std::function<bool()>& go_on) {
  return Remover{parent, name, go_on}.run();
}

}  // namespace tb::guest::files
