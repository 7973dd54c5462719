// SPDX-License-Identifier: Apache-2.0
#include "guest/minder.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <vector>

#include "guest/clock.h"

namespace tb::guest {
namespace {

constexpr int kReportFd = 3;
constexpr int kRounds = 200;  // a tree that forks while it is ended is ended again

void tell(int reports, const MinderReport& report) {
  (void)!::write(reports, &report, sizeof report);
}

// It may wait: nobody waits for it.
Step wait_for_exec(int status) {
  Step step;
  pollfd poll{status, POLLIN, 0};
  int result = 0;
  while ((result = read_status(status, step)) == 0) ::poll(&poll, 1, -1);
  ::close(status);
  return result < 0 ? step : Step{};
}

// Collects orphans and tells of the leader's end; goes when it has nobody left to mind.
[[noreturn]] void mind(const Launch& launch, int reports) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  const Launched launched = guest::launch(launch);
  MinderReport report;
  report.pid = launched.pid;
  report.failed = launched.pid < 0 ? launched.failed : wait_for_exec(launched.status);
  tell(reports, report);
  if (report.failed.text) ::_exit(1);
  // Nothing else of the guest: least of all the writing ends of the command's pipes.
  ::dup2(reports, kReportFd);
  ::syscall(SYS_close_range, kReportFd + 1, ~0u, 0);
  for (;;) {
    rusage usage{};
    const pid_t pid = ::wait4(-1, &report.status, 0, &usage);
    if (pid < 0 && errno == EINTR) continue;
    if (pid < 0) ::_exit(0);
    if (pid != launched.pid) continue;
    report.ended = true;
    report.cpu_us = micros(usage.ru_utime) + micros(usage.ru_stime);
    report.peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
    tell(kReportFd, report);
    ::close(kReportFd);
  }
}

struct Entry {
  int pid;
  int parent;
};

// pid (name) state ppid …; the name may contain anything, so from its last parenthesis.
int parent_of(const char* pid) {
  char path[300];
  std::snprintf(path, sizeof path, "/proc/%s/stat", pid);
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[512];
  const ssize_t n = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  if (n <= 0) return 0;
  text[n] = '\0';
  const char* after = std::strrchr(text, ')');
  int parent = 0;
  if (after && after + 4 < text + n) std::from_chars(after + 4, text + n, parent);
  return parent;
}

}  // namespace

std::vector<int> below(int top) {
  std::vector<Entry> all;
  DIR* proc = ::opendir("/proc");
  if (!proc) return {};
  while (const dirent* entry = ::readdir(proc)) {
    int pid = 0;
    const char* name = entry->d_name;
    std::from_chars(name, name + std::strlen(name), pid);
    if (pid > 1) all.push_back({pid, parent_of(name)});
  }
  ::closedir(proc);
  std::vector<int> found{top};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const Entry& entry : all) {
      const bool known = std::find(found.begin(), found.end(), entry.pid) != found.end();
      if (entry.parent == found[i] && !known) found.push_back(entry.pid);
    }
  }
  found.erase(found.begin());
  return found;
}

Minder launch_minded(const Launch& launch, Step& failed) {
  Minder minder;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    failed = {"make pipes", errno};
    return minder;
  }
  minder.pid = ::fork();
  if (minder.pid == 0) mind(launch, ends[1]);
  const int why = errno;
  ::close(ends[1]);
  if (minder.pid < 0) {
    ::close(ends[0]);
    failed = {"fork", why};
    return {};
  }
  minder.reports = ends[0];
  ::fcntl(minder.reports, F_SETFL, O_NONBLOCK);
  return minder;
}

void end_strays(const std::vector<int>& minders) {
  for (int round = 0; round < kRounds; ++round) {
    std::vector<int> spared = minders;
    for (const int minder : minders) {
      for (const int pid : below(minder)) spared.push_back(pid);
    }
    bool any = false;
    for (const int pid : below(1)) {
      if (std::find(spared.begin(), spared.end(), pid) != spared.end()) continue;
      ::kill(pid, SIGKILL);
      any = true;
    }
    if (!any) return;
  }
}

int read_report(int reports, MinderReport& report) {
  const ssize_t n = ::read(reports, &report, sizeof report);
  if (n == sizeof report) return 1;
  return n < 0 && errno == EAGAIN ? 0 : -1;
}

void signal_below(int minder, int number) {
  if (number != SIGKILL) {
    for (const int pid : below(minder)) ::kill(pid, number);
    return;
  }
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<int> all = below(minder);
    if (all.empty()) return;
    for (const int pid : all) ::kill(pid, SIGSTOP);  // so that none forks while others are ended
    for (const int pid : all) ::kill(pid, SIGKILL);
  }
}

}  // namespace tb::guest
