// SPDX-License-Identifier: Apache-2.0
#include "guest/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>

#include <algorithm>
#include <cerrno>

#include "guest/operations.h"
#include "guest/tree.h"
#include "match/glob.h"

namespace tb::guest::files {
namespace {

// Part by part: a slash comes before every other byte.
bool before(const std::string& a, const std::string& b) {
  const auto rank = [](char c) { return c == '/' ? 0u : static_cast<unsigned char>(c); };
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [&](char x, char y) { return rank(x) < rank(y); });
}

}  // namespace

bool Walk::comes_after(const std::string& path) const {
  return after_.empty() || before(after_, path);
}

bool Walk::may_have_after(const std::string& path) const {
  return comes_after(path) || path == after_ ||
         (after_.size() > path.size() && after_.starts_with(path) && after_[path.size()] == '/');
}

bool Walk::read_names(int directory, Level& level) {
  // The stream takes a descriptor of its own: the level's stays for what is done with the names.
  const int fd = ::fcntl(directory, F_DUPFD_CLOEXEC, 0);
  DIR* stream = fd < 0 ? nullptr : ::fdopendir(fd);
  if (!stream) {
    if (fd >= 0) ::close(fd);
    return false;
  }
  while (const dirent* item = ::readdir(stream)) {
    const char* name = item->d_name;
    if (name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'))) continue;
    if (held_ >= kHeld || held_bytes_ >= kHeldBytes || seen_ >= kLookedAt) {
      cut_ = true;
      break;
    }
    ++held_;
    ++seen_;
    level.names.emplace_back(name);
    level.bytes += level.names.back().size();
    held_bytes_ += level.names.back().size();
  }
  ::closedir(stream);
  std::sort(level.names.begin(), level.names.end(), std::greater<>{});
  return true;
}

bool Walk::enter(int directory, const char* name) {
  if (levels_.size() >= kDepth || path_.size() >= kMaxPath) return cut_ = true, true;
  Level level{File{open_beneath(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0,
                                RESOLVE_NO_SYMLINKS)},
              {},
              0,
              0};
  if (!level.directory || !read_names(level.directory.fd, level)) return false;
  if (!levels_.empty()) path_ += '/';
  level.path_size = path_.size();
  levels_.push_back(std::move(level));
  return true;
}

void Walk::leave() {
  held_bytes_ -= levels_.back().bytes;
  levels_.pop_back();
}

bool Walk::run(const std::function<Next(const Visit&)>& take) {
  if (!enter(top_, ".")) return false;
  while (!levels_.empty()) {
    Level& level = levels_.back();
    if (level.names.empty()) {
      leave();
      continue;
    }
    const std::string name = std::move(level.names.back());
    level.names.pop_back();
    --held_;
    path_.resize(level.path_size);
    path_ += name;
    struct stat info{};
    if (!may_have_after(path_)) continue;
    if (::fstatat(level.directory.fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const int directory = level.directory.fd;
    Next next = Next::below;
    if (comes_after(path_)) {
      next = take({path_, name.c_str(), directory, info, levels_.size() - 1});
    }
    if (next == Next::stop) return true;
    if (next != Next::below || !S_ISDIR(info.st_mode) || !recursive_) continue;
    // One that can't be read, or is none any more, is left out.
    if (!enter(directory, name.c_str())) unreadable_ = true;
  }
  return true;
}

// ---- names that match ----

bool walk_names(const OperationRequest& request, const Workplace& place) {
  Teller teller{place.socket};
  match::Glob glob;
  std::string mistake;
  const bool chooses = !request.glob.empty();
  if (chooses && !match::Glob::compile(request.glob, glob, mistake)) {
    return teller.send(refuse_operation(Reason::bad_pattern, 0, mistake));
  }
  const File directory{open_directory(place.root, request.path)};
  if (!directory) return teller.send(refuse_by_errno());
  const std::string prefix = request.path.empty() ? "" : request.path + "/";
  std::vector<match::Glob::State> states{chooses ? glob.start() : match::Glob::State{}};
  OperationAnswer end;
  bool heard = true;
  Walk walk{directory.fd, request.has(OperationRequest::recursive),
            chooses ? std::string{} : request.other};
  const bool could = walk.run([&](const Visit& visit) {
    if (!(heard = teller.tick())) return Next::stop;
    bool wanted = true;
    bool hopeless = false;
    if (chooses) {
      states.resize(visit.depth + 1);
      states.push_back(glob.enter(states[visit.depth], visit.name));
      wanted = glob.accepts(states.back());
      hopeless = glob.hopeless(states.back());
    }
    if (wanted && end.files == request.most) {
      end.complete = 0;
      return Next::stop;
    }
    if (wanted) {
      ++end.files;
      Item item;
      item.entry = describe(prefix + visit.path, visit.info);
      heard = teller.add(std::move(item));
    }
    return !heard ? Next::stop : hopeless ? Next::beside : Next::below;
  });
  if (!heard) return false;
  if (!could) return teller.send(refuse_by_errno());
  if (!walk.complete()) end.complete = 0;
  return teller.flush() && teller.send(end);
}

}  // namespace tb::guest::files
