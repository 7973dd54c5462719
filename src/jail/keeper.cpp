// SPDX-License-Identifier: Apache-2.0
#include "jail/keeper.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "jail/jail.h"
#include "jail/keeper_loop.h"

namespace tb::jail {
namespace {

// One keeper for a state directory.
os::Fd lock_state(const std::string& state_dir) {
  std::filesystem::create_directories(state_dir);
  const std::string path = state_dir + "/keeper.lock";
  os::Fd lock{check(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), "open " + path)};
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    throw Error{Code::conflict, "a keeper for " + state_dir + " is already running"};
  }
  return lock;
}

// Without root, a user namespace in which we are: then the rest is the same.
void enter_own_namespaces(bool root) {
  const uid_t uid = ::getuid();
  const gid_t gid = ::getgid();
  check(::unshare(root ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS),
        root ? "unshare the mount namespace" : "make a user namespace");
  if (!root) {
    os::write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1\n");
    os::write_file("/proc/self/setgroups", "deny");
    os::write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1\n");
  }
  // Nothing that we mount reaches the host, and nothing stays when we are gone.
  check(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "make mounts private");
}

void raise_file_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void tell_ready(int fd, const std::string& text) {
  if (fd < 0) return;
  [[maybe_unused]] const ssize_t n = ::write(fd, text.data(), text.size());
  ::close(fd);
}

}  // namespace

std::string keeper_socket(const std::string& state_dir) { return state_dir + "/keeper.sock"; }

int run_keeper(const KeeperOptions& options) {
  if (options.detach && ::fork() > 0) ::_exit(0);
  std::optional<Keeper> keeper;
  os::Fd lock;
  try {
    lock = lock_state(options.state_dir);
    const bool root = ::geteuid() == 0;
    raise_file_limit();
    ::umask(022);
    ::signal(SIGPIPE, SIG_IGN);
    enter_own_namespaces(root);
    keeper.emplace(options, open_workshop(options.state_dir, root, options.directories));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "keeper: %s\n", error.what());
    tell_ready(options.ready_fd, error.what());
    return 1;
  }
  tell_ready(options.ready_fd, "ok");
  options.supervisor.tell("READY=1");
  return keeper->run();
}

}  // namespace tb::jail
