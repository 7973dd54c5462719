// SPDX-License-Identifier: Apache-2.0
#include "guest/cgroups.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

namespace tb::guest {

namespace {

struct Name {
  char text[16] = "c";
  explicit Name(unsigned number) {
    *std::to_chars(text + 1, text + sizeof text - 1, number).ptr = '\0';
  }
};

// A shell is copied into a command's cgroup by itself, with its own uid: that needs a right to
// write to both. Who can see no cgroups, as all in a sandbox, has no other use for it.
void let_all_move(int dir) { (void)!::fchmodat(dir, "cgroup.procs", 0666, 0); }

// ".." of a mount of its own is itself.
bool leads_nowhere(int dir) {
  struct stat self{}, above{};
  return ::fstat(dir, &self) == 0 && ::fstatat(dir, "..", &above, 0) == 0 &&
         self.st_dev == above.st_dev && self.st_ino == above.st_ino;
}

}  // namespace

CommandCgroups::CommandCgroups(bool there) : there_(there) {
  closed_ = there_ && leads_nowhere(kCgroupFd);
  if (closed_) let_all_move(kCgroupFd);
}

int CommandCgroups::make() {
  Group group;
  group.number = next_++;
  const Name name{group.number};
  if (::mkdirat(kCgroupFd, name.text, 0755) != 0) return -1;
  group.dir = ::openat(kCgroupFd, name.text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (group.dir < 0) return -1;
  if (closed_) let_all_move(group.dir);
  group.events = ::openat(group.dir, "cgroup.events", O_RDONLY | O_CLOEXEC);
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    if (groups_[i].dir >= 0) continue;
    groups_[i] = group;
    return static_cast<int>(i);
  }
  groups_.push_back(group);
  return static_cast<int>(groups_.size()) - 1;
}

void CommandCgroups::retire_killed() {
  for (Group& group : groups_) {
    if (group.dir < 0 || group.taken || !group.killed || populated(group)) continue;
    ::close(group.events);
    ::close(group.dir);
    ::unlinkat(kCgroupFd, Name{group.number}.text, AT_REMOVEDIR);
    group = Group{};
  }
}

bool CommandCgroups::populated(const Group& group) {
  char text[128];
  const ssize_t n = ::pread(group.events, text, sizeof text - 1, 0);
  if (n <= 0) return true;
  text[n] = '\0';
  return std::strstr(text, "populated 0") == nullptr;
}

int CommandCgroups::take() {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    const Group& group = groups_[i];
    if (group.dir < 0 || group.taken || group.killed || populated(group)) continue;
    groups_[i].taken = true;
    return static_cast<int>(i);
  }
  const int index = make();
  if (index >= 0) groups_[static_cast<std::size_t>(index)].taken = true;
  return index;
}

void CommandCgroups::give(int index) {
  if (index < 0) return;
  groups_[static_cast<std::size_t>(index)].taken = false;
  retire_killed();
}

int CommandCgroups::kill(int index) {
  groups_[static_cast<std::size_t>(index)].killed = true;
  const int fd = ::openat(dir_fd(index), "cgroup.kill", O_WRONLY | O_CLOEXEC);
  if (fd < 0) {
    // Before Linux 5.14: as often as it takes, since processes may fork in between.
    for (int round = 0; round < 100; ++round) signal_all(index, SIGKILL);
    return 0;
  }
  const ssize_t n = ::write(fd, "1", 1);
  ::close(fd);
  return n == 1 ? 0 : -1;
}

std::vector<int> CommandCgroups::processes(int index) const {
  std::vector<int> found;
  const int fd = ::openat(dir_fd(index), "cgroup.procs", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return found;
  std::string text;
  char buffer[4096];
  ssize_t n;
  while ((n = ::read(fd, buffer, sizeof buffer)) > 0) text.append(buffer, static_cast<size_t>(n));
  ::close(fd);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int pid = 0;
    const auto [next, error] = std::from_chars(at, end, pid);
    if (error == std::errc{} && pid > 1) found.push_back(pid);
    at = next + 1;
  }
  return found;
}

int CommandCgroups::move(int index, int pid) const {
  const int fd = ::openat(dir_fd(index), "cgroup.procs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  const std::string text = std::to_string(pid);
  const ssize_t n = ::write(fd, text.data(), text.size());
  ::close(fd);
  return n > 0 ? 0 : -1;
}

void CommandCgroups::signal_all(int index, int number) {
  for (const int pid : processes(index)) ::kill(pid, number);
}

bool CommandCgroups::any_left_behind() {
  for (const Group& group : groups_) {
    if (group.dir >= 0 && !group.taken && populated(group)) return true;
  }
  return false;
}

bool CommandCgroups::any_populated() const {
  for (const Group& group : groups_) {
    if (group.dir >= 0 && populated(group)) return true;
  }
  return false;
}

Counters::Counters(const std::vector<Counter>& which) {
  for (const Counter& counter : which) {
    const int fd = ::openat(counter.dir_fd, counter.file.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd >= 0) sources_.push_back({counter, fd});
  }
}

namespace {

std::uint64_t value_of(std::string_view text, std::string_view key) {
  std::size_t at = 0;
  if (!key.empty()) {
    while ((at = text.find(key, at)) != std::string_view::npos) {
      const bool starts_line = at == 0 || text[at - 1] == '\n';
      const std::size_t after = at + key.size();
      at = after;
      if (starts_line && after < text.size() && text[after] == ' ') break;
    }
    if (at == std::string_view::npos) return 0;
    ++at;
  }
  std::uint64_t value = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value;
}

}  // namespace

Counters::Values Counters::read() const {
  Values values;
  values.reserve(sources_.size());
  char text[1024];
  for (const Source& source : sources_) {
    const ssize_t n = ::pread(source.fd, text, sizeof text, 0);
    values.push_back(n <= 0 ? 0
                            : value_of({text, static_cast<std::size_t>(n)}, source.counter.key));
  }
  return values;
}

std::uint32_t Counters::hits(const Values& before, const Values& now) const {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (now[i] > before[i]) bits |= sources_[i].counter.limit;
  }
  return bits;
}

std::uint64_t Counters::oom_kills(const Values& before, const Values& now) const {
  std::uint64_t kills = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (sources_[i].counter.oom) kills += now[i] - before[i];
  }
  return kills;
}

std::uint64_t CommandCgroups::cpu_us(int index) const {
  const int fd = ::openat(dir_fd(index), "cpu.stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[256];
  const ssize_t n = ::read(fd, text, sizeof text);
  ::close(fd);
  return n <= 0 ? 0 : value_of({text, static_cast<std::size_t>(n)}, "usage_usec");
}

bool disk_is_full() {
  // Quotas have no counter of refusals; asking for a little room tells.
  constexpr off_t kRoom = 256 << 10;
  const int fd = ::openat(kDiskFd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return errno == EDQUOT || errno == ENOSPC;
  const bool full = ::fallocate(fd, 0, 0, kRoom) != 0 && (errno == EDQUOT || errno == ENOSPC);
  ::close(fd);
  return full;
}

}  // namespace tb::guest
