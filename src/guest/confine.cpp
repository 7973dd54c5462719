// SPDX-License-Identifier: Apache-2.0
#include "guest/confine.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "os/landlock.h"

namespace tb::guest {
namespace {

// Commands run as another uid, and signals must reach them.
constexpr int kKept[] = {CAP_SETUID, CAP_SETGID, CAP_KILL};

int drop_bounding_set() {
  for (int cap = 0; cap <= 63; ++cap) {
    const int held = ::prctl(PR_CAPBSET_READ, cap, 0, 0, 0);
    if (held < 0) return 0;  // EINVAL: beyond the last capability
    if (held > 0 && ::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) return -1;
  }
  return 0;
}

int keep_few_capabilities(bool any) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  for (int cap : kKept) {
    if (any) data[0].effective |= 1u << cap;
  }
  data[0].permitted = data[0].effective;
  return static_cast<int>(::syscall(SYS_capset, &header, data));
}

int lock_securebits() {
  return ::prctl(PR_SET_SECUREBITS,
                 SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
                     SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                     SECBIT_NO_SETUID_FIXUP_LOCKED,
                 0, 0, 0);
}

int allow_below(int ruleset, int dir, std::uint64_t rights) {
  if (dir < 0) return -1;
  return os::landlock::add_path(ruleset, dir, rights);
}

// A path that is not there in this sandbox needs no right.
bool allow_paths(int ruleset, const std::vector<std::string>& paths, std::uint64_t rights) {
  for (const std::string& path : paths) {
    const int file = ::open(path.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) continue;
    const int result = os::landlock::add_path(ruleset, file, rights);
    ::close(file);
    if (result != 0) return false;
  }
  return true;
}

// A program that can be read is as good as one that can be executed: the dynamic loader starts it.
bool allow_programs(int ruleset, const Config& config) {
  bool ok =
      allow_paths(ruleset, config.read_paths, os::landlock::kReadFile) &&
      allow_paths(ruleset, config.run_paths, os::landlock::kReadFile | os::landlock::kExecute);
  // Our own reading: counters of limits lie outside of the sandbox's tree.
  for (const Counter& counter : config.counters) {
    ok = ok && allow_below(ruleset, counter.dir_fd, os::landlock::kReadFile) == 0;
  }
  return ok;
}

// Nothing outside the writable places can be changed, even if a mount were wrong; and a confined
// sandbox can neither execute nor read any other program than those of its list.
int restrict_files(const Config& config) {
  const int version = os::landlock::abi();
  if (version == 0) {
    errno = ENOSYS;
    return config.confined ? -1 : 0;
  }
  std::uint64_t rights = os::landlock::write_rights(version);
  if (config.confined) rights |= os::landlock::kReadFile;
  os::landlock::RulesetAttr attr;
  attr.fs = rights | (config.confined ? os::landlock::kExecute : 0);
  attr.scoped = version >= 6 ? os::landlock::kScopeAll : 0;
  const int ruleset = os::landlock::create_ruleset(attr, version);
  if (ruleset < 0) return -1;
  bool ok = true;
  for (const std::string& path : config.write_paths) {
    const int dir = ::open(path.c_str(), O_PATH | O_CLOEXEC);
    ok = ok && allow_below(ruleset, dir, rights) == 0;
    ::close(dir);
  }
  if (config.confined) ok = ok && allow_programs(ruleset, config);
  if (config.command_cgroups) ok = ok && allow_below(ruleset, kCgroupFd, rights) == 0;
  if (config.disk_check) ok = ok && allow_below(ruleset, kDiskFd, rights) == 0;
  if (ok) ok = os::landlock::restrict_self(ruleset) == 0;
  ::close(ruleset);
  return ok ? 0 : -1;
}

}  // namespace

int add_filter(const std::string& program) {
  sock_fprog filter{};
  filter.len = static_cast<unsigned short>(program.size() / sizeof(sock_filter));
  filter.filter = reinterpret_cast<sock_filter*>(const_cast<char*>(program.data()));
  return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter));
}

const char* confine(const Config& config) {
  // After the last change of uid, which would clear it. The keeper is single-threaded.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return "set the parent-death signal";
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return "make the guest undumpable";
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return "set no_new_privs";
  if (drop_bounding_set() != 0) return "empty the capability bounding set";
  // Rootless, the guest has no uid to switch to: it came here without any capability, and can't
  // lock what it does not have.
  const bool single_id = ::getuid() == config.uid;
  if (!single_id && lock_securebits() != 0) return "lock the securebits";
  if (keep_few_capabilities(!single_id) != 0) return "drop capabilities";
  if (restrict_files(config) != 0) return "restrict files with Landlock";
  // Of two refusals the later filter's errno counts: EAFNOSUPPORT for netlink, not ENOSYS.
  if (add_filter(config.base_filter) != 0 || add_filter(config.value_filter) != 0) {
    return "install the seccomp filters";
  }
  return nullptr;
}

}  // namespace tb::guest
