// SPDX-License-Identifier: Apache-2.0
#include "jail/enter.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/keyctl.h>
#include <linux/openat2.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/wire.h"
#include "jail/environment.h"
#include "os/fault.h"
#include "os/fdpass.h"
#include "os/mount.h"

namespace tb::jail {
namespace {

using os::attempt;

// Host-wide tables and switches: Docker's list, and what the probe found readable beyond it.
// clang-format off
constexpr const char* kMasked[] = {
    "acpi", "asound", "buddyinfo", "bus", "cgroups", "cmdline", "config.gz", "consoles", "crypto",
    "devices", "driver", "dynamic_debug", "filesystems", "fs", "interrupts", "iomem", "ioports",
    "irq", "kallsyms", "kcore", "key-users", "keys", "kmsg", "kpagecgroup", "kpagecount",
    "kpageflags", "latency_stats", "locks", "misc", "modules", "mtrr", "pagetypeinfo", "pressure",
    "sched_debug", "schedstat", "scsi", "slabinfo", "softirqs", "sysrq-trigger", "timer_list",
    "timer_stats", "tty", "vmallocinfo", "zoneinfo",
};
// clang-format on

constexpr unsigned kQuiet = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

void wait_for_uid_maps(const os::Fd& keeper) {
  char byte = 0;
  const ssize_t n = ::recv(keeper.get(), &byte, 1, 0);
  if (n != 1) ::_exit(1);  // the keeper gave up or is gone
}

void leave_sessions() {
  attempt("setsid", [] { return ::setsid(); });
  // A keyring of its own, so that none of the host's is possessed. ENOSYS: no keys, no leak.
  if (::syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, nullptr) < 0 && errno != ENOSYS &&
      errno != EPERM && errno != EDQUOT) {
    throw SystemError{errno, "join a session keyring"};
  }
}

void enter_cgroups(const Entry& entry) {
  entry.cgroup->join_v1();
  // Only now: the namespace begins where the process is.
  attempt("unshare the cgroup namespace", [] { return ::unshare(CLONE_NEWCGROUP); });
}

// Data that a confined sandbox may read and never needs to map as a program.
constexpr const char* kData[] = {"etc", "usr/share", "usr/local/share"};

void mount_proc(int root, const std::vector<Mask>& masks, bool confined) {
  os::Fd proc = os::make_mount("proc", {}, kQuiet);
  os::attach_mount(proc, root, "proc");
  // No user namespace below this one, whatever else should fail.
  attempt("write max_user_namespaces", [&] {
    os::write_file_at(root, "proc/sys/user/max_user_namespaces", "0");
    return 0;
  });
  // A second wall to the filter, which refuses memfds altogether: absent before Linux 6.3, and
  // root's alone, so that rootless has no right to it.
  if (confined) {
    os::Fd file{::openat(root, "proc/sys/vm/memfd_noexec", O_WRONLY | O_CLOEXEC)};
    if (file) attempt("write memfd_noexec", [&] { return ::write(file.get(), "2", 1); });
  }
  os::Fd sys = os::clone_mount(root, "proc/sys", kQuiet | MOUNT_ATTR_RDONLY);
  os::attach_mount(sys, root, "proc/sys");
  for (const Mask& mask : masks) {
    // Views of the read-only root: they have its nosuid and nodev already.
    os::Fd cover = os::clone_mount(root, mask.directory ? kEmptyDirectory : kUnreadableFile, 0);
    os::attach_mount(cover, root, mask.path);
  }
}

void shut_data(int root) {
  for (const char* path : kData) {
    struct stat info{};
    if (::fstatat(root, path, &info, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(info.st_mode)) continue;
    os::Fd view = os::clone_mount(root, path, kQuiet | MOUNT_ATTR_RDONLY);
    os::attach_mount(view, root, path);
  }
}

// The keeper has made these places; what it found free of links must still be.
void attach_volume(const os::Fd& mount, int root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  const os::Fd place{static_cast<int>(attempt("open /" + path, [&] {
    return ::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how);
  }))};
  attempt("move_mount /" + path, [&] {
    return ::move_mount(mount.get(), "", place.get(), "",
                        MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
  });
}

void assemble_root(const Entry& entry) {
  os::attach_mount(entry.root, AT_FDCWD, entry.attach_point);
  for (const auto& [mount, path] : entry.mounts) {
    os::attach_mount(mount, entry.root.get(), path);
  }
  for (const auto& [mount, path] : entry.volumes) attach_volume(mount, entry.root.get(), path);
  if (entry.confined) shut_data(entry.root.get());
  mount_proc(entry.root.get(), *entry.masks, entry.confined);
}

// The old root goes on top of the new one and is then let go of, with all that is below it.
void pivot(const os::Fd& root) {
  attempt("enter the new root", [&] { return ::fchdir(root.get()); });
  attempt("pivot_root", [] { return ::syscall(SYS_pivot_root, ".", "."); });
  attempt("detach the old root", [] { return ::umount2(".", MNT_DETACH); });
  attempt("chdir", [] { return ::chdir("/"); });
}

void bring_loopback_up() {
  os::Fd socket{attempt("socket", [] { return ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0); })};
  ifreq request{};
  request.ifr_name[0] = 'l';
  request.ifr_name[1] = 'o';
  request.ifr_flags = IFF_UP;
  attempt("bring lo up", [&] { return ::ioctl(socket.get(), SIOCSIFFLAGS, &request); });
}

void set_limits(const Limits& limits) {
  struct Row {
    int resource;
    rlim_t value;
    const char* name;
  };
  const Row rows[] = {
      // The cgroup's limit is to be met first: it is the one that is counted.
      {RLIMIT_NPROC, limits.pids + kMaxHelpers, "RLIMIT_NPROC"},
      {RLIMIT_NOFILE, limits.open_files, "RLIMIT_NOFILE"},
      {RLIMIT_FSIZE, limits.disk, "RLIMIT_FSIZE"},
      {RLIMIT_CORE, 0, "RLIMIT_CORE"},
      {RLIMIT_MEMLOCK, 64 << 10, "RLIMIT_MEMLOCK"},
      {RLIMIT_MSGQUEUE, 819200, "RLIMIT_MSGQUEUE"},
      {RLIMIT_SIGPENDING, 1024, "RLIMIT_SIGPENDING"},
      {RLIMIT_RTPRIO, 0, "RLIMIT_RTPRIO"},
      {RLIMIT_NICE, 0, "RLIMIT_NICE"},
      {RLIMIT_STACK, 8 << 20, "RLIMIT_STACK"},
  };
  for (const Row& row : rows) {
    rlimit now{};
    ::getrlimit(static_cast<__rlimit_resource>(row.resource), &now);
    const rlim_t value = std::min(row.value, now.rlim_max);
    const rlimit limit{value, value};
    attempt(row.name,
            [&] { return ::setrlimit(static_cast<__rlimit_resource>(row.resource), &limit); });
  }
}

// What a server or a keeper has by the host's settings is not for sandboxes.
void drop_priority() {
  if (::getpriority(PRIO_PROCESS, 0) >= 0) return;
  attempt("setpriority", [] { return ::setpriority(PRIO_PROCESS, 0, 0); });
}

void become_guest(bool single_id) {
  if (single_id) {
    // There is no second uid to hold capabilities under: all go now, before the program.
    for (int cap = 0; cap <= 63; ++cap) ::prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    return;
  }
  attempt("setgroups", [] { return ::setgroups(0, nullptr); });
  attempt("setresgid", [] { return ::setresgid(0, 0, 0); });
  attempt("setresuid", [] { return ::setresuid(0, 0, 0); });
}

void reset_signals() {
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// To the numbers where the guest looks for them; everything else is closed.
int arrange_descriptors(const Entry& entry) {
  std::vector<std::pair<int, int>> wanted = {{entry.control.get(), guest::kControlFd},
                                             {entry.keeper.get(), guest::kKeeperFd},
                                             {entry.config, guest::kConfigFd},
                                             {entry.waiter, guest::kWaiterFd},
                                             {entry.opening, guest::kOpeningFd}};
  if (entry.cgroup->unified()) {
    wanted.emplace_back(entry.cgroup->unified().get(), guest::kCgroupFd);
  }
  if (entry.disk) wanted.emplace_back(entry.disk.get(), guest::kDiskFd);
  int next = guest::kCounterFd;
  for (const os::Fd& dir : entry.counter_dirs) wanted.emplace_back(dir.get(), next++);
  const int program = next;
  wanted.emplace_back(entry.program, program);
  // First out of each other's way, then into place. Closed on exec only by the guest's own order:
  // it hands none of them to a command.
  constexpr int kAside = 64;
  for (auto& [from, to] : wanted) {
    from = attempt("move a descriptor", [&] { return ::fcntl(from, F_DUPFD, kAside); });
  }
  const int null = ::open("/dev/null", O_RDWR);
  for (int standard : {0, 1, 2}) ::dup2(null, standard);
  for (int fd = guest::kControlFd; fd <= program; ++fd) ::close(fd);
  for (const auto& [from, to] : wanted) {
    attempt("place a descriptor", [&] { return ::dup3(from, to, to == program ? O_CLOEXEC : 0); });
  }
  ::syscall(SYS_close_range, static_cast<unsigned>(program) + 1, ~0u, 0);
  return program;
}

[[noreturn]] void execute_guest(int program) {
  char name[] = "threadbox-guest";
  char* argv[] = {name, nullptr};
  char* env[] = {nullptr};
  attempt("execute the guest",
          [&] { return ::syscall(SYS_execveat, program, "", argv, env, AT_EMPTY_PATH); });
  ::_exit(1);
}

void report(int control, const std::exception& error) {
  const auto* failed = dynamic_cast<const SystemError*>(&error);
  guest::Failure failure{0, failed ? failed->number() : 0, error.what()};
  Writer out;
  failure.encode(out, guest::Message::jail_failed);
  os::send_packet(control, out.view());
}

}  // namespace

std::vector<Mask> proc_masks() {
  std::vector<Mask> masks;
  for (const char* name : kMasked) {
    struct stat info{};
    if (::lstat((std::string{"/proc/"} + name).c_str(), &info) != 0) continue;
    masks.push_back({std::string{"proc/"} + name, S_ISDIR(info.st_mode)});
  }
  return masks;
}

void enter(Entry& entry) {
  int control = entry.control.get();
  try {
    reset_signals();
    drop_priority();
    wait_for_uid_maps(entry.keeper);
    enter_cgroups(entry);  // while the host's cgroup files can still be reached
    leave_sessions();
    assemble_root(entry);  // before pivot: a proc mount must see the host's one
    pivot(entry.root);
    attempt("sethostname",
            [&] { return ::sethostname(entry.hostname.data(), entry.hostname.size()); });
    bring_loopback_up();
    ::umask(022);
    become_guest(entry.single_id);  // the steps above need the keeper's uid
    const int program = arrange_descriptors(entry);
    control = guest::kControlFd;
    set_limits(entry.limits);  // after the keeper's many descriptors are gone
    execute_guest(program);
  } catch (const std::exception& error) {
    report(control, error);
    ::_exit(1);
  }
}

}  // namespace tb::jail
