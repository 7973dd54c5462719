// SPDX-License-Identifier: Apache-2.0
#include "jail/places.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <filesystem>

#include "os/fault.h"
#include "os/mount.h"

namespace tb::jail {
namespace {

// A session whose tree is full comes back all the same: the places of its mounts are ours to make.
constexpr Bytes kSpare = 4_MiB;

class MoreRoom {
 public:
  MoreRoom(const Disk& disk, const os::Fd& tree, Bytes usual)
      : disk_(disk), tree_(tree), usual_(usual) {
    disk_.limit_tree(tree_, usual_ + kSpare);
  }
  ~MoreRoom() {
    try {
      disk_.limit_tree(tree_, usual_);
    } catch (const Error&) {
      // It is set anew with its next start.
    }
  }
  MoreRoom(const MoreRoom&) = delete;
  MoreRoom& operator=(const MoreRoom&) = delete;

 private:
  const Disk& disk_;
  const os::Fd& tree_;
  const Bytes usual_;
};

struct Part {
  std::string_view target;  // in the sandbox
  const char* name;         // in its tree
};
// The writable places of a sandbox.
constexpr Part kParts[] = {{"/workspace", "workspace"},
                           {"/tmp", "tmp"},
                           {"/home/sandboxuser", "home"},
                           {"/sandbox", "sandbox"}};

int open_below(int dir, const std::string& path, std::uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  return static_cast<int>(::syscall(SYS_openat2, dir, path.c_str(), &how, sizeof how));
}

Error in_the_way(const std::string& path) {
  return Error{Code::invalid,
               "nothing can be mounted at " + path +
                   ": a part of this path is there and is no directory; choose another path"};
}

// A link or a file in any layer would be hidden by the directory that is made above it, or would
// lead elsewhere.
void check_free(const Environment& environment, const std::string& target) {
  for (const Environment::Part& part : environment.parts()) {
    if (!part.target.empty()) continue;
    for (const os::Fd& layer : part.layers) {
      const os::Fd found{open_below(layer.get(), target.substr(1), O_PATH | O_NOFOLLOW)};
      struct stat info{};
      if (!found && errno == ENOENT) continue;
      if (!found || ::fstat(found.get(), &info) != 0 || !S_ISDIR(info.st_mode)) {
        throw in_the_way(target);
      }
    }
  }
}

const Part* find_part(const std::string& target) {
  for (const Part& part : kParts) {
    if (targets_touch(target, part.target) && target.size() >= part.target.size()) return &part;
  }
  return nullptr;
}

// Only what the keeper was started for, and no way into our own state by it. Links led to it when
// the keeper started: one that is there now may be a tenant's, who can write above it.
os::Fd open_directory(const MountSources& sources, const std::string& path) {
  const auto known = sources.directories.find(path);
  if (known == sources.directories.end()) {
    throw Error{Code::invalid, "this keeper was not started for the directory " + path +
                                   ": run `threadbox stop` first"};
  }
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  os::Fd dir{
      static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, known->second.c_str(), &how, sizeof how))};
  if (!dir) {
    throw Error{Code::unavailable,
                SystemError{errno, "the directory " + path + " can't be mounted"}.what()};
  }
  std::error_code ignored;
  const std::string self = "/proc/self/fd/" + std::to_string(dir.get());
  const std::string real = std::filesystem::read_symlink(self, ignored);
  const std::string state = std::filesystem::canonical(sources.state_dir, ignored);
  if (real.empty() || real == "/" || state.empty() || targets_touch(real, state)) {
    throw Error{Code::invalid, "the directory " + path + " can't be mounted into a sandbox"};
  }
  return dir;
}

}  // namespace

Directories find_directories(const std::vector<std::string>& names) {
  Directories found;
  for (const std::string& name : names) {
    std::error_code unreadable;
    const std::string place = std::filesystem::weakly_canonical(name, unreadable);
    found.emplace(name, unreadable ? name : place);
  }
  return found;
}

os::Fd open_beneath(const os::Fd& dir, const std::string& path) {
  return os::Fd{os::attempt("open " + path, [&] {
    return open_below(dir.get(), path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  })};
}

void make_directories(const os::Fd& dir, const std::string& path,
                      std::optional<std::uint32_t> owner) {
  os::Fd here = os::duplicate(dir);
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    const std::string name = path.substr(start, slash - start);
    start = slash + 1;
    const bool made = ::mkdirat(here.get(), name.c_str(), 0755) == 0;
    if (!made && errno != EEXIST) throw SystemError{errno, "make the place of a mount"};
    os::Fd next{open_below(here.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)};
    if (!next && (errno == ENOTDIR || errno == ELOOP)) throw in_the_way(path);
    if (!next) throw SystemError{errno, "open the place of a mount"};
    if (made && owner) check(::fchown(next.get(), *owner, *owner), "chown the place of a mount");
    here = std::move(next);
  }
}

os::Fd make_places(const MountSources& sources, const Environment& environment, const os::Fd& tree,
                   const Create& create, std::uint32_t tenant) {
  if (create.mounts.empty()) return {};
  const MoreRoom room{sources.disk, tree, Bytes{create.limits.disk}};
  std::vector<std::string> in_root;
  for (const Mount& mount : create.mounts) {
    const Part* part = find_part(mount.target);
    if (!part) {
      check_free(environment, mount.target);
      in_root.push_back(mount.target.substr(1));
    } else if (mount.target != part->target) {
      const os::Fd top = open_beneath(tree, part->name);
      make_directories(top, mount.target.substr(part->target.size() + 1), tenant);
    }
  }
  return in_root.empty() ? os::Fd{} : sources.disk.make_points(create.id, in_root);
}

Mounted open_mounts(const MountSources& sources, const Create& create, std::uint32_t tenant) {
  Mounted mounts;
  for (const Mount& mount : create.mounts) {
    unsigned attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    if (mount.read_only) attributes |= MOUNT_ATTR_RDONLY;
    // A program of its own would be one that is on no list.
    if (!create.programs.empty()) attributes |= MOUNT_ATTR_NOEXEC;
    os::Fd opened;
    if (mount.kind == Mount::Kind::volume) {
      opened = sources.volumes.mount(mount.source, tenant, attributes);
    } else {
      const os::Fd dir = open_directory(sources, mount.source);
      opened = os::clone_mount(dir.get(), "", attributes);
    }
    mounts.emplace_back(std::move(opened), mount.target.substr(1));
  }
  return mounts;
}

}  // namespace tb::jail
