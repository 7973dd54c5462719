// SPDX-License-Identifier: Apache-2.0
#include "jail/barriers.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <optional>

#include "os/landlock.h"

namespace tb::jail {
namespace {

constexpr std::uint8_t kPresent = 0;
constexpr std::uint8_t kDegraded = 1;
constexpr std::uint8_t kMissing = 2;

std::optional<std::string> read_word(const std::string& path) {
  try {
    std::string text = os::read_file(path, 4096);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  } catch (const Error&) {
    return std::nullopt;
  }
}

Barrier namespaces() {
  Barrier row{"namespaces", kPresent, "user mount pid net ipc uts cgroup", ""};
  for (const char* name : {"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}) {
    if (::access((std::string{"/proc/self/ns/"} + name).c_str(), F_OK) != 0) {
      row.state = kMissing;
      row.detail = std::string{"the kernel has no "} + name + " namespace";
      row.advice = "use a kernel with all namespaces";
    }
  }
  const auto limit = read_word("/proc/sys/user/max_user_namespaces");
  if (limit && *limit == "0") {
    row = {"namespaces", kMissing, "user namespaces are switched off",
           "sysctl user.max_user_namespaces=10000"};
  }
  return row;
}

Barrier uids(bool root) {
  if (root) return {"uid range", kPresent, "two host uids of its own for every sandbox", ""};
  return {"uid range", kDegraded, "rootless: every sandbox runs as your own uid",
          "run as root to give each sandbox uids of its own"};
}

Barrier cgroup_row(const CgroupTree& tree) {
  if (tree.missing().empty()) {
    return {"cgroup limits", kPresent, "memory, pids and cpu are limited", ""};
  }
  std::string list;
  for (const std::string& name : tree.missing()) list += (list.empty() ? "" : ", ") + name;
  return {"cgroup limits", kMissing, "no limit on " + list,
          "run as root, or delegate the cgroup controllers " + list};
}

Barrier kill_row(const CgroupTree& tree) {
  if (tree.unified()) {
    return {"cgroup.kill", kPresent, "a cgroup for each command: all it started dies with it", ""};
  }
  return {"cgroup.kill", kDegraded,
          "no cgroups: what a command started is found by walking the process tree",
          "mount the cgroup2 tree, or run as root"};
}

Barrier disk_row(const Disk& disk) {
  if (disk.kind() == Disk::Kind::btrfs) {
    return {"disk limit", kPresent, "bytes limited by btrfs quotas in a pool of its own", ""};
  }
  return {"disk limit", kMissing, "a sandbox can fill the disk: " + disk.why_plain(),
          "run as root with btrfs-progs installed and loop devices available"};
}

Barrier landlock_row() {
  const int abi = os::landlock::abi();
  if (abi == 0) {
    return {"landlock", kMissing, "the kernel has none or it is not switched on",
            "boot with lsm=landlock,… (Linux 5.13 or later)"};
  }
  return {"landlock", kPresent, "ABI " + std::to_string(abi), ""};
}

Barrier programs_row() {
  if (os::landlock::abi() == 0) {
    return {"program lists", kMissing, "sandboxes that may run only some programs are refused",
            "boot with lsm=landlock,… (Linux 5.13 or later)"};
  }
  return {"program lists", kPresent,
          "a confined sandbox can execute and read only the programs of its list", ""};
}

Barrier seccomp_row() {
  if (::prctl(PR_GET_SECCOMP) < 0) {
    return {"seccomp", kMissing, "the kernel has no seccomp", "use a kernel with CONFIG_SECCOMP"};
  }
  return {"seccomp", kPresent, "allow-list of system calls", ""};
}

Barrier core_row() {
  const auto pattern = read_word("/proc/sys/kernel/core_pattern");
  if (pattern && (pattern->starts_with("|") || pattern->starts_with("@"))) {
    return {"core dumps", kDegraded,
            "crashes start a helper of the host (" + pattern->substr(0, 40) + ")",
            "sysctl kernel.core_pattern=core"};
  }
  return {"core dumps", kPresent, "no helper of the host is started", ""};
}

struct Advice {
  const char* path;
  int at_least;
  const char* name;
};
constexpr Advice kSysctls[] = {
    {"/proc/sys/kernel/dmesg_restrict", 1, "kernel.dmesg_restrict=1"},
    {"/proc/sys/kernel/kptr_restrict", 1, "kernel.kptr_restrict=2"},
    {"/proc/sys/kernel/unprivileged_bpf_disabled", 1, "kernel.unprivileged_bpf_disabled=1"},
    {"/proc/sys/kernel/io_uring_disabled", 2, "kernel.io_uring_disabled=2"},
    {"/proc/sys/fs/protected_symlinks", 1, "fs.protected_symlinks=1"},
    {"/proc/sys/fs/protected_hardlinks", 1, "fs.protected_hardlinks=1"},
};

// Not needed by a sandbox, which has none of it; good for the host all the same.
Barrier sysctl_row() {
  std::string wanted;
  for (const Advice& advice : kSysctls) {
    const auto text = read_word(advice.path);
    int value = 0;
    if (!text) continue;
    std::from_chars(text->data(), text->data() + text->size(), value);
    if (value < advice.at_least) wanted += (wanted.empty() ? "" : " ") + std::string{advice.name};
  }
  if (wanted.empty()) return {"host sysctls", kPresent, "hardened", ""};
  return {"host sysctls", kDegraded, "the host could be harder", "sysctl " + wanted};
}

}  // namespace

std::vector<Barrier> examine_host(const Workshop* workshop) {
  std::vector<Barrier> rows;
  rows.push_back(namespaces());
  rows.push_back(uids(workshop ? workshop->root : ::geteuid() == 0));
  rows.push_back(seccomp_row());
  rows.push_back(landlock_row());
  rows.push_back(programs_row());
  if (workshop) {
    rows.push_back(cgroup_row(*workshop->cgroups));
    rows.push_back(kill_row(*workshop->cgroups));
    rows.push_back(disk_row(*workshop->disk));
  }
  rows.push_back(core_row());
  rows.push_back(sysctl_row());
  return rows;
}

}  // namespace tb::jail
