// SPDX-License-Identifier: Apache-2.0
#include "jail/disk.h"

#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "jail/places.h"
#include "jail/wire.h"
#include "os/btrfs.h"
#include "os/fault.h"

extern char** environ;

namespace tb::jail {
namespace fs = std::filesystem;
namespace {

constexpr Bytes kFirstSize = 2_GiB;
constexpr Bytes kStep = 2_GiB;
constexpr Bytes kAhead = 1_GiB;        // free room in the pool that growing keeps up
constexpr Bytes kHostReserve = 2_GiB;  // never taken from the host's disk
constexpr Bytes kReserve = 128_MiB;    // in the pool: below it nobody new comes in

constexpr int kTries = 3;  // to make a pool
constexpr std::chrono::milliseconds kPause{100};

constexpr const char* kParts[] = {"workspace", "tmp", "home", "sandbox"};
// What agents expect in /sandbox; workspace is the workspace itself.
constexpr const char* kSandboxParts[] = {"agent", "logs", "meta", "tools", "workspace"};
constexpr const char* kPoints = "points";
constexpr const char* kVolumes = "volumes.d";  // no id of a tree: those have no dots

Bytes host_free(const os::Fd& file) {
  struct statvfs info{};
  check(::fstatvfs(file.get(), &info), "statvfs");
  return {static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize};
}

void run(const std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  for (const auto& word : argv) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  pid_t pid = 0;
  const int result = ::posix_spawnp(&pid, pointers[0], nullptr, nullptr, pointers.data(), environ);
  if (result != 0) throw SystemError{result, "run " + argv[0]};
  int status = 0;
  check(::waitpid(pid, &status, 0), "wait for " + argv[0]);
  if (status != 0) throw Error{Code::unavailable, argv[0] + " failed"};
}

// By descriptor, and never through a link: the top of the tree belongs to the guest.
void own(int dir, const char* name, std::uint32_t uid, mode_t mode) {
  os::Fd part{os::attempt(std::string{"open "} + name, [&] {
    return ::openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  })};
  os::attempt("chown", [&] { return ::fchown(part.get(), uid, uid); });
  os::attempt("chmod", [&] { return ::fchmod(part.get(), mode); });
}

// Gives every file of a tree to its next owner: only when the uid that it had is taken. By
// descriptors: a sandbox that lives may have been passed one of a directory in it, and could put a
// link where a path leads through.
void give_tree(os::Fd top, std::uint32_t from, std::uint32_t to) {
  const int dir = top.get();
  DIR* const list = ::fdopendir(dir);
  if (!list) throw SystemError{errno, "list files for their next owner"};
  top.release();
  const std::unique_ptr<DIR, int (*)(DIR*)> closed{list, ::closedir};
  while (const dirent* entry = ::readdir(list)) {
    const std::string_view name = entry->d_name;
    struct stat info{};
    if (name == "." || name == "..") continue;
    if (::fstatat(dir, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (info.st_uid == from) {
      check(::fchownat(dir, entry->d_name, to, to, AT_SYMLINK_NOFOLLOW),
            "give a file to its next owner");
    }
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    os::Fd below{S_ISDIR(info.st_mode) ? ::openat(dir, entry->d_name, flags) : -1};
    if (below) give_tree(std::move(below), from, to);
  }
}

// Also of one that an earlier version made without some.
void fill_tree(const Disk::Tree& tree, std::uint32_t tenant) {
  for (const char* part : kParts) {
    if (tree.existed && ::faccessat(tree.top.get(), part, F_OK, AT_SYMLINK_NOFOLLOW) == 0) continue;
    os::attempt("mkdir", [&] { return ::mkdirat(tree.top.get(), part, 0755); });
  }
  os::Fd sandbox{os::attempt("open sandbox", [&] {
    return ::openat(tree.top.get(), "sandbox", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  })};
  for (const char* part : kSandboxParts) {
    if (::mkdirat(sandbox.get(), part, 0755) != 0) continue;  // the tenant may have put another
    own(sandbox.get(), part, tenant, 0755);
  }
}

// Under another name until it is whole: who is killed meanwhile leaves no pool.
void make_image(const std::string& final_path) {
  const std::string path = final_path + ".new";
  const os::Fd image{
      check(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), "open " + path)};
  // Allocated for real: a sparse image turns read-only for everybody when the host fills up.
  if (host_free(image) < kFirstSize + kHostReserve) {
    throw Error{Code::exhausted, "less than 4 GiB free on the state directory's disk"};
  }
  check(::fallocate(image.get(), 0, 0, static_cast<off_t>(kFirstSize.count)), "allocate " + path);
  run({"mkfs.btrfs", "-q", "-K", "-m", "single", "-d", "single", path});
  check(::rename(path.c_str(), final_path.c_str()), "rename " + path);
}

os::Fd open_directory(int parent, const std::string& name) {
  return os::Fd{os::attempt("open " + name, [&] {
    return ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  })};
}

}  // namespace

Disk::Disk(const std::string& dir, bool privileged) {
  fs::create_directories(dir);
  check(::chmod(dir.c_str(), 0700), "chmod " + dir);
  const bool has_pool = fs::exists(dir + "/pool.img");
  const std::string plain = dir + "/trees";
  if (has_pool && !privileged) throw Error{Code::unavailable, "the pool in " + dir + " needs root"};
  if (!privileged) {
    why_plain_ = "a pool with quotas needs root";
  } else if (!has_pool && fs::exists(plain) && !fs::is_empty(plain)) {
    why_plain_ = "it began without a pool, and " + plain + " still holds files";
  } else if (has_pool) {
    try {
      open_pool(dir);
    } catch (const Error& error) {
      throw Error{error.code(), "the pool can't be opened: " + std::string{error.what()}};
    }
  } else {
    make_pool(dir);
  }
  if (kind_ == Kind::btrfs) return;
  root_path_ = plain;
  fs::create_directories(root_path_);
  root_ = os::Fd{
      check(::open(root_path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open " + root_path_)};
}

Disk::~Disk() {
  root_.reset();
  if (kind_ == Kind::btrfs) ::umount2(root_path_.c_str(), MNT_DETACH);
}

void Disk::make_pool(const std::string& dir) {
  // What stands in the way may be gone in a moment, and without a pool there is no limit for as
  // long as this keeper runs.
  for (int tries = kTries; tries > 0 && kind_ == Kind::plain; --tries) {
    try {
      make_image(dir + "/pool.img");
      open_pool(dir);
    } catch (const Error& error) {
      why_plain_ = error.what();
      drop_pool(dir);
      if (tries > 1) std::this_thread::sleep_for(kPause);
    }
  }
}

// Leaves nothing that the next keeper would take for a pool.
void Disk::drop_pool(const std::string& dir) {
  kind_ = Kind::plain;
  root_.reset();
  ::umount2((dir + "/pool").c_str(), MNT_DETACH);
  device_ = {};
  image_.reset();
  for (const char* name : {"/pool.img", "/pool.img.new"}) ::unlink((dir + name).c_str());
}

void Disk::open_pool(const std::string& dir) {
  image_path_ = dir + "/pool.img";
  image_ = os::Fd{check(::open(image_path_.c_str(), O_RDWR | O_CLOEXEC), "open " + image_path_)};
  device_ = os::loop::attach(image_);
  root_path_ = dir + "/pool";
  fs::create_directories(root_path_);
  // In the keeper's own mount namespace: it is gone when the keeper is. No discard: it would make
  // the image sparse again. No copy on write: such files can't be compressed, which kernel threads
  // would do at nobody's expense.
  check(::mount(device_.path.c_str(), root_path_.c_str(), "btrfs",
                MS_NOSUID | MS_NODEV | MS_NOATIME, "nodiscard,nodatacow,commit=30"),
        "mount the pool");
  root_ = os::Fd{
      check(::open(root_path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "open the pool")};
  simple_quotas_ = os::btrfs::enable_quotas(root_);
  kind_ = Kind::btrfs;
  keep_room();
}

Disk::Tree Disk::open_tree(const std::string& id, Bytes limit, std::uint32_t guest,
                           std::uint32_t tenant) {
  Tree tree;
  tree.existed = ::faccessat(root_.get(), id.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
  if (!tree.existed) make_tree(root_, id);
  try {
    tree.top = os::Fd{os::attempt("open the tree " + id, [&] {
      return ::openat(root_.get(), id.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    })};
    if (kind_ == Kind::btrfs) os::btrfs::limit_subvolume(tree.top, limit);
    if (tree.existed) {
      struct stat info{};
      check(::fstatat(tree.top.get(), "workspace", &info, AT_SYMLINK_NOFOLLOW), "stat workspace");
      if (info.st_uid != tenant) give_tree(open_directory(root_.get(), id), info.st_uid, tenant);
    }
    fill_tree(tree, tenant);
    own(tree.top.get(), ".", guest, 0711);
    for (const char* part : kParts) {
      struct stat info{};
      check(::fstatat(tree.top.get(), part, &info, AT_SYMLINK_NOFOLLOW), "stat a part of the tree");
      // What is the tenant's already has the mode that it gave.
      if (tree.existed && info.st_uid == tenant) continue;
      own(tree.top.get(), part, tenant, std::string_view{part} == "tmp" ? 01777 : 0755);
    }
  } catch (...) {
    if (!tree.existed) remove_tree(id);
    throw;
  }
  return tree;
}

void Disk::make_tree(const os::Fd& parent, const std::string& name) {
  if (kind_ == Kind::plain) {
    os::attempt("mkdir " + name, [&] { return ::mkdirat(parent.get(), name.c_str(), 0755); });
    return;
  }
  if (free_room() < kReserve) {
    keep_room();
    if (free_room() < kReserve) throw Error{Code::exhausted, "the disk pool is full"};
  }
  os::btrfs::create_subvolume(parent, name);
}

void Disk::remove_tree(const std::string& id) { drop_tree(root_, root_path_, id); }

void Disk::drop_tree(const os::Fd& parent, const std::string& path, const std::string& name) {
  if (kind_ == Kind::plain) return os::remove_tree(path + "/" + name);
  os::Fd top{::openat(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW)};
  if (!top) return;
  const std::uint64_t group = os::btrfs::subvolume_id(top);
  top.reset();
  os::btrfs::delete_subvolume(parent, name);
  stale_groups_.push_back(group);
}

void Disk::set_aside(const std::string& id) {
  const std::string name = id + ".damaged";
  (void)!::renameat(root_.get(), id.c_str(), root_.get(), name.c_str());
}

std::vector<std::string> Disk::list() const {
  std::vector<std::string> ids;
  for (const auto& entry : fs::directory_iterator{root_path_}) {
    std::string name = entry.path().filename();
    if (valid_id(name)) ids.push_back(std::move(name));  // not what was set aside
  }
  return ids;
}

os::Fd Disk::make_points(const std::string& id, const std::vector<std::string>& paths) {
  const os::Fd top = open_directory(root_.get(), id);
  os::remove_tree(root_path_ + "/" + id + "/" + kPoints);
  os::attempt("mkdir points", [&] { return ::mkdirat(top.get(), kPoints, 0755); });
  os::Fd points = open_directory(top.get(), kPoints);
  for (const std::string& path : paths) make_directories(points, path, std::nullopt);
  return points;
}

void Disk::limit_tree(const os::Fd& top, Bytes limit) const {
  if (kind_ == Kind::btrfs) os::btrfs::limit_subvolume(top, limit);
}

std::string Disk::volumes_path() const { return root_path_ + "/" + kVolumes; }

os::Fd Disk::volumes_dir(Missing missing) const {
  if (missing == Missing::is_made && ::mkdirat(root_.get(), kVolumes, 0700) != 0 &&
      errno != EEXIST) {
    throw SystemError{errno, "make the directory of volumes"};
  }
  return open_directory(root_.get(), kVolumes);
}

os::Fd Disk::open_volume(const std::string& id, Bytes limit, std::uint32_t owner, Missing missing) {
  const os::Fd dir = volumes_dir(missing);
  if (missing == Missing::is_made) make_tree(dir, id);
  try {
    os::Fd top = open_beneath(dir, id);
    if (kind_ == Kind::btrfs) os::btrfs::limit_subvolume(top, limit);
    if (missing == Missing::is_made) own(top.get(), ".", owner, 0755);
    return top;
  } catch (...) {
    if (missing == Missing::is_made) drop_tree(dir, volumes_path(), id);
    throw;
  }
}

void Disk::remove_volume(const std::string& id) {
  drop_tree(volumes_dir(Missing::is_made), volumes_path(), id);
}

std::vector<std::string> Disk::volumes() const {
  std::vector<std::string> ids;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator{volumes_path(), absent}) {
    std::string name = entry.path().filename();
    if (valid_id(name)) ids.push_back(std::move(name));
  }
  return ids;
}

bool Disk::grow(Bytes step) {
  if (host_free(image_) < step + kHostReserve) return false;
  struct stat info{};
  check(::fstat(image_.get(), &info), "stat the pool");
  check(::fallocate(image_.get(), 0, info.st_size, static_cast<off_t>(step.count)),
        "grow the pool");
  os::loop::refresh_size(device_);
  os::btrfs::grow_to_device(root_);
  return true;
}

void Disk::keep_room() {
  if (kind_ == Kind::btrfs && free_room() < kAhead) grow(kStep);
}

Bytes Disk::free_room() const {
  struct statfs info{};
  check(::fstatfs(root_.get(), &info), "statfs the pool");
  return {static_cast<std::uint64_t>(info.f_bavail) * static_cast<std::uint64_t>(info.f_bsize)};
}

void Disk::tidy() {
  std::erase_if(stale_groups_,
                [this](std::uint64_t id) { return os::btrfs::remove_quota_group(root_, id); });
}

}  // namespace tb::jail
