// SPDX-License-Identifier: Apache-2.0
#include "guest/container.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace tb::guest {
namespace {

constexpr std::uint64_t kFirstServer = 120 * 1000;  // for the first one to come, in milliseconds
constexpr std::uint64_t kHour = 3600 * 1000;
constexpr int kDeepest = 200;

std::uint64_t now_ms() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);  // a machine that slept has lost its server's patience too
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1000000;
}

socklen_t name_door(const char* id, sockaddr_un& address) {
  address = {};
  address.sun_family = AF_UNIX;
  const std::string name = std::string{"threadbox/"} + id;  // behind a NUL: no file has it
  const std::size_t size = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), size);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
}

bool peer_of(int socket, ucred& peer) {
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
}

void remove_below(int dir, int depth) {
  DIR* list = ::fdopendir(dir);
  if (!list) {
    ::close(dir);
    return;
  }
  while (const dirent* entry = ::readdir(list)) {
    const char* name = entry->d_name;
    if (std::strcmp(name, ".") == 0 || std::strcmp(name, "..") == 0) continue;
    if (::unlinkat(::dirfd(list), name, 0) == 0 || depth >= kDeepest) continue;
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    const int below = ::openat(::dirfd(list), name, flags);
    if (below < 0) continue;
    ::fchmod(below, 0700);
    remove_below(below, depth + 1);
    ::unlinkat(::dirfd(list), name, AT_REMOVEDIR);
  }
  ::closedir(list);
}

}  // namespace

// With a unified hierarchy one directory has them all; before that, one for each controller.
Config container_config() {
  struct Row {
    const char* dir;
    Counter counter;
  };
  const Row kRows[] = {
      {"/sys/fs/cgroup", {kHitMemory, 0, "memory.events", "max", 0}},
      {"/sys/fs/cgroup", {kHitMemory, 0, "memory.events", "oom_kill", 1}},
      {"/sys/fs/cgroup", {kHitPids, 0, "pids.events", "max", 0}},
      {"/sys/fs/cgroup", {kHitCpu, 0, "cpu.stat", "nr_throttled", 0}},
      {"/sys/fs/cgroup/memory", {kHitMemory, 0, "memory.failcnt", "", 0}},
      {"/sys/fs/cgroup/memory", {kHitMemory, 0, "memory.oom_control", "oom_kill", 1}},
      {"/sys/fs/cgroup/pids", {kHitPids, 0, "pids.events", "max", 0}},
      {"/sys/fs/cgroup/cpu", {kHitCpu, 0, "cpu.stat", "nr_throttled", 0}},
  };
  Config config;
  config.uid = ::getuid();
  config.gid = ::getgid();
  config.in_container = true;
  int next = kCounterFd;
  for (const Row& row : kRows) {
    Counter counter = row.counter;
    const int dir = ::open(row.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) continue;
    counter.dir_fd = ::dup3(dir, next, O_CLOEXEC);
    ::close(dir);
    if (counter.dir_fd < 0) continue;
    ++next;
    config.counters.push_back(counter);
  }
  return config;
}

// Whoever has the same uid could otherwise trace it, and read its memory.
const char* confine_in_container() {
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return "make the guest undumpable";
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return "set no_new_privs";
  return nullptr;
}

void open_waiter() {
  struct Row {
    const char* path;
    int number;
  };
  constexpr Row kRows[] = {{"/.threadbox/waiter.so", kWaiterFd},
                           {"/.threadbox/opening.bash", kOpeningFd}};
  for (const Row& row : kRows) {
    const int file = ::open(row.path, O_RDONLY | O_CLOEXEC);
    ::dup3(file >= 0 ? file : STDIN_FILENO, row.number, O_CLOEXEC);
    if (file >= 0 && file != row.number) ::close(file);
  }
}

int open_door(const char* id) {
  const int door = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address;
  const socklen_t size = name_door(id, address);
  if (door < 0 || ::bind(door, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(door, 4) != 0) {
    return -1;
  }
  return door;
}

int admit(int door) {
  const int socket = ::accept4(door, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (socket < 0) return -1;
  ucred peer{};
  if (peer_of(socket, peer) && peer.uid == kCarrierUid) return socket;
  ::close(socket);
  return -1;
}

int knock(const char* id) {
  const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  sockaddr_un address;
  const socklen_t size = name_door(id, address);
  if (socket < 0 || ::connect(socket, reinterpret_cast<sockaddr*>(&address), size) != 0) return -1;
  ucred peer{};
  if (!peer_of(socket, peer) || peer.pid != 1) {
    errno = EPERM;
    return -1;
  }
  return socket;
}

Expiry::Expiry() : renewed_ms_(now_ms()), left_ms_(renewed_ms_) { lease_.grace_ms = kFirstServer; }

void Expiry::renew(const Lease& lease) {
  lease_ = lease;
  renewed_ms_ = now_ms();
}

void Expiry::server(bool there) {
  server_ = there;
  left_ms_ = now_ms();
}

int Expiry::left() const {
  if (lease_.idle_ms == 0 && server_) return static_cast<int>(kHour);
  const std::uint64_t from = lease_.idle_ms > 0 ? renewed_ms_ : left_ms_;
  const std::uint64_t end = from + lease_.idle_ms + lease_.grace_ms;
  const std::uint64_t now = now_ms();
  return end <= now ? 0 : static_cast<int>(std::min(end - now, kHour));
}

void end_container(bool with_files) {
  ::kill(-1, SIGKILL);
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  if (with_files) {
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    const int workspace = ::open("/workspace", flags);
    if (workspace >= 0) remove_below(workspace, 0);
  }
  ::_exit(0);
}

}  // namespace tb::guest
