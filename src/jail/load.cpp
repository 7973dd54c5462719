// SPDX-License-Identifier: Apache-2.0
#include "jail/load.h"

#include <sys/vfs.h>

#include <charconv>

#include "os/fd.h"

namespace tb::jail {
namespace {

using Number = std::optional<std::uint64_t>;

Number to_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

std::string read_quietly(const std::string& path) {
  if (::access(path.c_str(), R_OK) != 0) return {};
  try {
    return os::read_file(path);
  } catch (const Error&) {
    return {};  // it went away meanwhile
  }
}

Number read_number(const std::string& path) { return to_number(read_quietly(path)); }

// A file of lines "key value".
Number read_keyed(const std::string& path, std::string_view key) {
  const std::string text = read_quietly(path);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.size() > key.size() && line.starts_with(key) && line[key.size()] == ' ') {
      return to_number(line.substr(key.size() + 1));
    }
  }
  return std::nullopt;
}

Number memory_in_use(const std::string& dir) {
  if (dir.empty()) return std::nullopt;
  Number used = read_number(dir + "/memory.current");
  Number cached = read_keyed(dir + "/memory.stat", "inactive_file");
  if (!used) {
    used = read_number(dir + "/memory.usage_in_bytes");
    cached = read_keyed(dir + "/memory.stat", "total_inactive_file");
  }
  if (!used) return std::nullopt;
  return *used - std::min(*used, cached.value_or(0));
}

// Pages of /dev/shm and of System V segments, by both names that cgroups have for them.
Number shared_memory(const std::string& dir) {
  if (dir.empty()) return std::nullopt;
  if (const Number all = read_keyed(dir + "/memory.stat", "total_shmem")) return all;
  return read_keyed(dir + "/memory.stat", "shmem");
}

// Empty files take no page. The directory itself is one.
bool has_no_shm_files(pid_t pid1) {
  const std::string path = "/proc/" + std::to_string(pid1) + "/root/dev/shm";  // tidy: allow-path
  struct statfs info{};
  return ::statfs(path.c_str(), &info) == 0 && info.f_files - info.f_ffree <= 1;
}

}  // namespace

bool has_only_files(const SandboxCgroup& cgroup, pid_t pid1) {
  return measure(cgroup).processes == 1 && shared_memory(cgroup.dir("memory")) == 0 &&
         has_no_shm_files(pid1);
}

Number cpu_time_us(const SandboxCgroup& cgroup) {
  // The v2 tree counts time even where a v1 hierarchy limits it.
  if (!cgroup.unified_dir().empty()) {
    if (const Number time = read_keyed(cgroup.unified_dir() + "/cpu.stat", "usage_usec")) {
      return time;
    }
  }
  const std::string dir = cgroup.dir("cpu");
  if (dir.empty()) return std::nullopt;
  const Number nanoseconds = read_number(dir + "/cpuacct.usage");
  if (!nanoseconds) return std::nullopt;
  return *nanoseconds / 1000;
}

CgroupLoad measure(const SandboxCgroup& cgroup) {
  CgroupLoad load;
  load.memory_bytes = memory_in_use(cgroup.dir("memory"));
  load.cpu_us = cpu_time_us(cgroup);
  const std::string pids = cgroup.dir("pids");
  if (!pids.empty()) load.processes = read_number(pids + "/pids.current");
  return load;
}

}  // namespace tb::jail
