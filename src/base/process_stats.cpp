// SPDX-License-Identifier: Apache-2.0
#include "base/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace tb {
namespace {

double seconds_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

}  // namespace

// proc_pid_stat(5); the second field may hold anything, so what counts comes after its last ")".
ProcessStats read_process_stats() {
  ProcessStats stats;
  stats.cpu_seconds = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
  std::ifstream file{"/proc/self/stat"};
  std::string text;
  std::getline(file, text);
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return stats;
  std::istringstream fields{text.substr(end + 1)};
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  std::uint64_t start_ticks = 0;
  std::uint64_t resident_pages = 0;
  fields >> start_ticks >> stats.virtual_size.count >> resident_pages;
  if (!fields) return {};
  const double ticks = static_cast<double>(::sysconf(_SC_CLK_TCK));
  const double age = seconds_of(CLOCK_BOOTTIME) - static_cast<double>(start_ticks) / ticks;
  stats.started = seconds_of(CLOCK_REALTIME) - age;
  stats.resident = {resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))};
  return stats;
}

std::uint64_t count_open_files() {
  struct stat info{};
  // Since Linux 6.2 the size of the directory is their number; thousands need not be listed.
  if (::stat("/proc/self/fd", &info) == 0 && info.st_size > 0) {
    return static_cast<std::uint64_t>(info.st_size);
  }
  DIR* folder = ::opendir("/proc/self/fd");
  if (!folder) return 0;
  std::uint64_t count = 0;
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') ++count;
  }
  ::closedir(folder);
  return count > 0 ? count - 1 : 0;  // without the one that listed them
}

std::uint64_t max_open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

}  // namespace tb
