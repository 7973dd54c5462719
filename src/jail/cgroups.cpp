// SPDX-License-Identifier: Apache-2.0
#include "jail/cgroups.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "os/fault.h"
#include "os/mount.h"

namespace tb::jail {
namespace fs = std::filesystem;
namespace {

constexpr const char* kControllers[] = {"memory", "pids", "cpu"};
constexpr std::uint32_t kCpuPeriod = 100000;

bool write_quietly(const std::string& path, const std::string& value) {
  os::Fd fd{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  return fd && ::write(fd.get(), value.data(), value.size()) >= 0;
}

// A limit that must hold: failing to set it fails the sandbox.
void set(const std::string& dir, const char* file, const std::string& value) {
  const std::string path = dir + "/" + file;
  if (os::attempt_must_fail()) throw SystemError{EIO, "write " + path};
  os::write_file(path, value);
}

void make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0755) != 0 && errno != EEXIST)
    throw SystemError{errno, "mkdir " + path};
}

// Removes a cgroup and all below it, ending what still runs there. Leaves first.
bool remove_cgroup(const std::string& dir) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator{dir, ignored}) {
    if (entry.is_directory(ignored)) remove_cgroup(entry.path());
  }
  return ::rmdir(dir.c_str()) == 0 || errno == ENOENT;
}

void kill_all(const std::string& dir) {
  if (write_quietly(dir + "/cgroup.kill", "1")) return;
  // v1, or a v2 kernel before 5.14: signal what is listed.
  std::ifstream procs{dir + "/cgroup.procs"};
  for (pid_t pid; procs >> pid;) {
    if (pid > 0) ::kill(pid, SIGKILL);
  }
}

}  // namespace

bool CgroupHost::on_v2(const std::string& controller) const {
  return std::find(v2_controllers.begin(), v2_controllers.end(), controller) !=
         v2_controllers.end();
}

bool CgroupHost::has(const std::string& controller) const {
  return v1.contains(controller) || on_v2(controller);
}

CgroupHost find_cgroups() {
  CgroupHost host;
  std::ifstream mounts{"/proc/self/mountinfo"};
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields{line};
    std::string skip, mount, word, type, source, options;
    fields >> skip >> skip >> skip >> skip >> mount;
    while (fields >> word && word != "-") {
    }
    fields >> type >> source >> options;
    if (type == "cgroup2" && host.unified.empty()) host.unified = mount;
    if (type != "cgroup") continue;
    std::istringstream list{options};
    for (std::string option; std::getline(list, option, ',');) {
      for (const char* controller : kControllers) {
        if (option == controller) host.v1[option] = mount;
      }
    }
  }
  if (!host.unified.empty()) {
    std::ifstream controllers{host.unified + "/cgroup.controllers"};
    for (std::string name; controllers >> name;) host.v2_controllers.push_back(name);
  }
  return host;
}

CgroupTree::CgroupTree(CgroupHost host, std::string tag)
    : host_(std::move(host)), tag_(std::move(tag)) {
  if (!host_.unified.empty()) open_unified();
  for (const char* controller : kControllers) {
    if (const auto v1 = host_.v1.find(controller); v1 != host_.v1.end()) {
      open_hierarchy(controller, v1->second);
    }
    if (!dirs_.contains(controller)) missing_.push_back(controller);
  }
  for (const auto& [controller, dir] : dirs_) sweep(dir);
  if (!unified_.empty()) sweep(unified_);
}

void CgroupTree::open_unified() {
  const std::string top = host_.unified + "/threadbox";
  const std::string ours = top + "/" + tag_;
  try {
    make_directory(top);
    make_directory(ours);
  } catch (const SystemError&) {
    return;  // not ours to write to: rootless without delegation
  }
  unified_ = ours;
  for (const char* controller : kControllers) {
    if (!host_.on_v2(controller)) continue;
    const std::string on = std::string{"+"} + controller;
    bool enabled = true;
    for (const std::string& dir : {host_.unified, top, ours}) {
      enabled = write_quietly(dir + "/cgroup.subtree_control", on) && enabled;
    }
    if (enabled) dirs_[controller] = ours;
  }
}

void CgroupTree::open_hierarchy(const std::string& controller, const std::string& mount) {
  const std::string top = mount + "/threadbox";
  const std::string ours = top + "/" + tag_;
  try {
    make_directory(top);
    make_directory(ours);
    dirs_[controller] = ours;
  } catch (const SystemError&) {
    // Told through missing().
  }
}

void CgroupTree::sweep(const std::string& dir) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator{dir, ignored}) {
    if (!entry.is_directory(ignored)) continue;
    kill_all(entry.path());
    for (int round = 0; round < 200 && !remove_cgroup(entry.path()); ++round) {
      const timespec pause{0, 5000000};  // only while a keeper starts: nobody waits yet
      ::nanosleep(&pause, nullptr);
    }
    if (dir == unified_ || unified_.empty()) ++leftover_;
  }
}

std::vector<std::string> CgroupTree::counter_controllers() const {
  std::vector<std::string> order;
  for (const char* controller : kControllers) {
    if (dirs_.contains(controller)) order.push_back(controller);
  }
  return order;
}

std::vector<guest::Counter> CgroupTree::counters() const {
  std::vector<guest::Counter> counters;
  const std::vector<std::string> order = counter_controllers();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int dir = guest::kCounterFd + static_cast<int>(i);
    const bool v2 = dirs_.at(order[i]) == unified_;
    if (order[i] == "memory" && v2) {
      counters.push_back({guest::kHitMemory, dir, "memory.events", "max", 0});
      counters.push_back({guest::kHitMemory, dir, "memory.events", "oom_kill", 1});
    } else if (order[i] == "memory") {
      counters.push_back({guest::kHitMemory, dir, "memory.failcnt", "", 0});
      counters.push_back({guest::kHitMemory, dir, "memory.oom_control", "oom_kill", 1});
    } else if (order[i] == "pids") {
      counters.push_back({guest::kHitPids, dir, "pids.events", "max", 0});
    } else {
      counters.push_back({guest::kHitCpu, dir, "cpu.stat", "nr_throttled", 0});
    }
  }
  return counters;
}

void CgroupTree::remove() {
  for (const auto& [controller, dir] : dirs_) remove_cgroup(dir);
  if (!unified_.empty()) remove_cgroup(unified_);
  // The parent is shared by all state directories: it goes with the last.
  for (const auto& [controller, mount] : host_.v1) ::rmdir((mount + "/threadbox").c_str());
  if (!host_.unified.empty()) ::rmdir((host_.unified + "/threadbox").c_str());
}

namespace {

void limit_memory(const std::string& dir, bool v2, const Limits& limits) {
  const std::string bytes = std::to_string(limits.memory);
  if (v2) {
    set(dir, "memory.max", bytes);
    write_quietly(dir + "/memory.swap.max", "0");
  } else {
    set(dir, "memory.limit_in_bytes", bytes);
    // Memory and swap together: no swap. Absent where swap accounting is off.
    write_quietly(dir + "/memory.memsw.limit_in_bytes", bytes);
    write_quietly(dir + "/memory.swappiness", "0");
    // v1 counts the buffers of TCP sockets only when they have a limit.
    write_quietly(dir + "/memory.kmem.tcp.limit_in_bytes", bytes);
  }
}

void limit_cpu(const std::string& dir, bool v2, const Limits& limits) {
  const std::string quota = std::to_string(limits.cpu_quota);
  // Burst: time saved up while idle, so that short commands run at full speed. At most the quota.
  if (v2) {
    set(dir, "cpu.max", quota + " " + std::to_string(kCpuPeriod));
    write_quietly(dir + "/cpu.max.burst", quota);
  } else {
    set(dir, "cpu.cfs_quota_us", quota);
    write_quietly(dir + "/cpu.cfs_burst_us", quota);
  }
}

// The same, with nothing above it: it is given to PID 1, and ".." must not lead to the host's
// directories. Not everywhere: who may not mount has to do without.
os::Fd without_parents(os::Fd dir) {
  try {
    return os::clone_mount(dir.get(), "", 0);
  } catch (const SystemError& error) {
    if (error.number() != EPERM && error.number() != EINVAL) throw;
    return dir;
  }
}

}  // namespace

void SandboxCgroup::make(const std::string& dir) {
  if (std::find(dirs_.begin(), dirs_.end(), dir) != dirs_.end()) return;
  os::attempt("mkdir " + dir, [&] { return ::mkdir(dir.c_str(), 0755); });
  dirs_.push_back(dir);
}

SandboxCgroup::SandboxCgroup(const CgroupTree& tree, std::string name, const Limits& limits,
                             std::uint32_t guest_uid) {
  try {
    if (tree.unified()) {
      unified_dir_ = tree.unified_ + "/" + name;
      make(unified_dir_);
      unified_ = os::Fd{os::attempt("open " + unified_dir_, [&] {
        return ::open(unified_dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
      })};
      unified_ = without_parents(std::move(unified_));
      // The guest moves commands between this cgroup and those that it makes in it.
      for (const char* file : {"", "cgroup.procs"}) {
        const std::string path = unified_dir_ + "/" + file;
        os::attempt("chown " + path, [&] { return ::chown(path.c_str(), guest_uid, guest_uid); });
      }
    }
    for (const auto& [controller, parent] : tree.dirs_) {
      const std::string dir = parent + "/" + name;
      make(dir);
      by_controller_[controller] = dir;
      const bool v2 = dir == unified_dir_;
      if (!v2) v1_dirs_.push_back(dir);
      if (controller == "memory") limit_memory(dir, v2, limits);
      if (controller == "cpu") limit_cpu(dir, v2, limits);
      if (controller == "pids") set(dir, "pids.max", std::to_string(limits.pids));
    }
  } catch (...) {
    remove();
    throw;
  }
}

SandboxCgroup::~SandboxCgroup() { remove(); }

std::string SandboxCgroup::dir(const std::string& controller) const {
  const auto found = by_controller_.find(controller);
  return found == by_controller_.end() ? std::string{} : found->second;
}

void SandboxCgroup::join_v1() const {
  for (const std::string& dir : v1_dirs_) set(dir, "tasks", "0");
}

bool SandboxCgroup::freeze(bool on) const {
  if (unified_dir_.empty()) return false;
  try {
    os::write_file(unified_dir_ + "/cgroup.freeze", on ? "1" : "0");
    return true;
  } catch (const Error&) {
    return false;  // a kernel before 5.2
  }
}

void SandboxCgroup::kill() const {
  if (!unified_dir_.empty()) return kill_all(unified_dir_);
  for (const std::string& dir : v1_dirs_) kill_all(dir);
}

bool SandboxCgroup::remove() {
  unified_.reset();
  std::erase_if(dirs_, [](const std::string& dir) { return remove_cgroup(dir); });
  return dirs_.empty();
}

}  // namespace tb::jail
