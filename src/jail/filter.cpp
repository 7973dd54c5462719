// SPDX-License-Identifier: Apache-2.0
#include "jail/filter.h"

#include <linux/sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "base/error.h"
#include "os/fd.h"

namespace tb::jail {
namespace {

// What programs need. Everything else answers ENOSYS, as an older kernel would, so that
// libraries fall back; names that this libseccomp does not know are newer than it and stay out.
// clang-format off
constexpr const char* kAllowed[] = {
    // files
    "access", "chdir", "chmod", "chown", "close", "close_range", "copy_file_range", "creat",
    "dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchdir",
    "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl", "fdatasync", "fgetxattr",
    "flistxattr", "flock", "fremovexattr", "fsetxattr", "fstat", "fstatfs", "fsync", "ftruncate",
    "futimesat", "getcwd", "getdents", "getdents64", "getxattr", "inotify_add_watch",
    "inotify_init", "inotify_init1", "inotify_rm_watch", "ioctl", "lchown", "lgetxattr", "link",
    "linkat", "listxattr", "llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat", "mkdir",
    "mkdirat", "newfstatat", "open", "openat", "openat2", "pipe", "pipe2", "pread64", "preadv",
    "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readahead", "readlink", "readlinkat",
    "readv", "removexattr", "rename", "renameat", "renameat2", "rmdir", "sendfile", "setxattr",
    "splice", "stat", "statfs", "statx", "symlink", "symlinkat", "sync", "sync_file_range",
    "syncfs", "tee", "truncate", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes",
    "write", "writev",
    // memory
    "brk", "madvise", "memfd_create", "mincore", "mlock", "mlock2", "mlockall", "mmap",
    "mprotect", "mremap", "msync", "munlock", "munlockall", "munmap", "pkey_alloc", "pkey_free",
    "pkey_mprotect",
    // processes and threads
    "arch_prctl", "capget", "capset", "clone3", "execve", "execveat", "exit", "exit_group",
    "fork", "futex", "futex_waitv", "get_robust_list", "getcpu", "getegid", "geteuid", "getgid",
    "getgroups", "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getresgid",
    "getresuid", "getrlimit", "getrusage", "getsid", "gettid", "getuid", "ioprio_get",
    "ioprio_set", "kill", "landlock_add_rule", "landlock_create_ruleset",
    "landlock_restrict_self", "membarrier", "pidfd_open", "pidfd_send_signal", "prctl",
    "prlimit64", "rseq", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity",
    "sched_getattr", "sched_getparam", "sched_getscheduler", "sched_rr_get_interval",
    "sched_setaffinity", "sched_setattr", "sched_setparam", "sched_setscheduler", "sched_yield",
    "seccomp", "set_robust_list", "set_tid_address", "setfsgid", "setfsuid", "setgid",
    "setgroups", "setpgid", "setpriority", "setregid", "setresgid", "setresuid", "setreuid",
    "setrlimit", "setsid", "setuid", "sysinfo", "tgkill", "times", "tkill", "uname", "vfork",
    "vhangup", "wait4", "waitid",
    // signals, time, waiting
    "alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "epoll_create", "epoll_create1",
    "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2", "getitimer",
    "gettimeofday", "nanosleep", "pause", "poll", "ppoll", "pselect6", "restart_syscall",
    "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
    "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "select", "setitimer", "sigaltstack",
    "signalfd", "signalfd4", "time", "timer_create", "timer_delete", "timer_getoverrun",
    "timer_gettime", "timer_settime", "timerfd_create", "timerfd_gettime", "timerfd_settime",
    // sockets (socket and socketpair: below, by value)
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen",
    "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown",
    // inter-process communication, in a namespace of its own
    "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",
    "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop", "semtimedop", "shmat",
    "shmctl", "shmdt", "shmget",
    // the rest
    "getrandom",
};
// clang-format on

// Refused loudly: a program that calls these should hear "not permitted", not "no such call".
// clang-format off
constexpr const char* kForbidden[] = {
    "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "fsopen", "fsconfig",
    "fsmount", "fspick", "open_tree", "move_mount", "mount_setattr", "open_by_handle_at",
    "name_to_handle_at", "init_module", "finit_module", "delete_module", "kexec_load",
    "kexec_file_load", "reboot", "swapon", "swapoff", "acct", "settimeofday", "clock_settime",
    "clock_adjtime", "adjtimex", "iopl", "ioperm", "bpf", "keyctl", "add_key",
    "request_key", "syslog", "sethostname", "setdomainname", "perf_event_open", "userfaultfd",
    "kcmp", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "io_uring_setup",
    "io_uring_enter", "io_uring_register", "quotactl", "fanotify_init", "fanotify_mark", "mbind",
    "set_mempolicy", "get_mempolicy", "move_pages", "migrate_pages", "vmsplice", "modify_ldt",
};
// clang-format on

using Context = std::unique_ptr<void, decltype(&seccomp_release)>;

Context make_context(std::uint32_t default_action) {
  Context context{seccomp_init(default_action), &seccomp_release};
  if (!context) throw Error{Code::internal, "seccomp_init failed"};
  seccomp_attr_set(context.get(), SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
  seccomp_attr_set(context.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);  // a binary tree
  return context;
}

template <class... Conditions>
void rule(Context& context, std::uint32_t action, const char* name, Conditions... conditions) {
  const int number = seccomp_syscall_resolve_name(name);
  if (number == __NR_SCMP_ERROR) return;
  const scmp_arg_cmp list[] = {conditions..., scmp_arg_cmp{}};
  const int result =
      seccomp_rule_add_array(context.get(), action, number, sizeof...(conditions), list);
  // -EDOM: the call does not exist on this architecture.
  if (result != 0 && result != -EDOM) {
    throw SystemError{-result, std::string{"seccomp rule for "} + name};
  }
}

std::string export_program(Context& context) {
  os::Fd file{check(::memfd_create("filter", MFD_CLOEXEC), "memfd_create")};
  const int result = seccomp_export_bpf(context.get(), file.get());
  if (result != 0) throw SystemError{-result, "export a seccomp filter"};
  check(::lseek(file.get(), 0, SEEK_SET), "rewind the filter");
  std::string program;
  char buffer[4096];
  ssize_t n;
  while ((n = check(::read(file.get(), buffer, sizeof buffer), "read the filter")) > 0) {
    program.append(buffer, static_cast<std::size_t>(n));
  }
  return program;
}

// Sockets are allowed by equality, which fails closed: the kernel looks at 32 bits of a family,
// a filter at 64.
void allow_sockets(Context& context) {
  constexpr std::uint32_t kType = ~std::uint32_t{SOCK_NONBLOCK | SOCK_CLOEXEC};
  const auto allow = [&](int family, int type, int protocol) {
    rule(context, SCMP_ACT_ALLOW, "socket", SCMP_A0(SCMP_CMP_EQ, static_cast<unsigned>(family)),
         SCMP_A1(SCMP_CMP_MASKED_EQ, kType, static_cast<unsigned>(type)),
         SCMP_A2(SCMP_CMP_EQ, static_cast<unsigned>(protocol)));
  };
  for (int type : {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET}) allow(AF_UNIX, type, 0);
  for (int family : {AF_INET, AF_INET6}) {
    allow(family, SOCK_STREAM, 0);
    allow(family, SOCK_STREAM, 6);
    allow(family, SOCK_DGRAM, 0);
    allow(family, SOCK_DGRAM, 17);
  }
  rule(context, SCMP_ACT_ALLOW, "socketpair", SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
}

void allow_by_value(Context& context) {
  constexpr std::uint64_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS |
                                        CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  // Nor a child for PID 1 to follow.
  constexpr std::uint64_t kRefused = kNamespaces | CLONE_PTRACE;
  rule(context, SCMP_ACT_ALLOW, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, kRefused, 0));
  // PID 1 hears of the end of a shell that asked for it (guest/following.cpp): commands can't.
  for (std::uint64_t request : {PTRACE_TRACEME, PTRACE_CONT, PTRACE_DETACH, PTRACE_SETOPTIONS,
                                PTRACE_GETEVENTMSG, PTRACE_PEEKUSER}) {
    rule(context, SCMP_ACT_ALLOW, "ptrace", SCMP_A0(SCMP_CMP_EQ, request));
  }
  // Linux itself, and the question which one it is.
  for (std::uint64_t persona : {0x0ull, 0xffffffffull}) {
    rule(context, SCMP_ACT_ALLOW, "personality", SCMP_A0(SCMP_CMP_EQ, persona));
  }
  for (std::uint64_t type : {std::uint64_t{0}, std::uint64_t{S_IFREG}, std::uint64_t{S_IFIFO},
                             std::uint64_t{S_IFSOCK}}) {
    rule(context, SCMP_ACT_ALLOW, "mknod", SCMP_A1(SCMP_CMP_MASKED_EQ, S_IFMT, type));
    rule(context, SCMP_ACT_ALLOW, "mknodat", SCMP_A2(SCMP_CMP_MASKED_EQ, S_IFMT, type));
  }
}

std::string base_filter() {
  Context context = make_context(SCMP_ACT_ERRNO(ENOSYS));
  for (const char* name : kAllowed) rule(context, SCMP_ACT_ALLOW, name);
  for (const char* name : kForbidden) rule(context, SCMP_ACT_ERRNO(EPERM), name);
  allow_sockets(context);
  allow_by_value(context);
  return export_program(context);
}

// A context of its own: libseccomp silently drops a conditional refusal of a call that the same
// context allows. Only the lower 32 bits count, as for the kernel.
std::string value_filter() {
  constexpr std::uint64_t kLow = 0xffffffff;
  struct Refusal {
    const char* call;
    unsigned argument;
    std::uint64_t mask;
    std::uint64_t value;
    int error;
  };
  const Refusal refusals[] = {
      {"ioctl", 1, kLow, 0x5412, EPERM},           // TIOCSTI: types into the terminal
      {"ioctl", 1, kLow, 0x541c, EPERM},           // TIOCLINUX
      {"ioctl", 1, kLow, 0x541d, EPERM},           // TIOCCONS
      {"ioctl", 1, kLow, 0x5423, EPERM},           // TIOCSETD: line disciplines
      {"ioctl", 1, 0xff00, 0x9400, ENOTTY},        // btrfs: a subvolume of one's own has no quota
      {"ioctl", 1, kLow, 0x40086602, EOPNOTSUPP},  // FS_IOC_SETFLAGS: compression, again
      {"ioctl", 1, kLow, 0x401c5820, EOPNOTSUPP},  // FS_IOC_FSSETXATTR
      {"prctl", 0, kLow, 35, EPERM},               // PR_SET_MM
      {"prctl", 0, kLow, 62, EPERM},               // PR_SCHED_CORE
      {"socket", 0, kLow, AF_NETLINK, EAFNOSUPPORT},
  };
  Context context = make_context(SCMP_ACT_ALLOW);
  for (const Refusal& refusal : refusals) {
    rule(context, SCMP_ACT_ERRNO(static_cast<std::uint32_t>(refusal.error)), refusal.call,
         SCMP_CMP64(refusal.argument, SCMP_CMP_MASKED_EQ, refusal.mask, refusal.value));
  }
  return export_program(context);
}

std::string command_filter(bool confined) {
  Context context = make_context(SCMP_ACT_ALLOW);
  // A filter can't see its flags; libraries fall back to clone, whose flags it sees.
  rule(context, SCMP_ACT_ERRNO(ENOSYS), "clone3");
  rule(context, SCMP_ACT_ERRNO(EPERM), "ptrace");
  // Landlock does not see memfds, no mount makes them noexec, and what vm.memfd_noexec=2 forbids to
  // execute can still be mapped by the dynamic loader.
  if (confined) rule(context, SCMP_ACT_ERRNO(EACCES), "memfd_create");
  return export_program(context);
}

}  // namespace

Filters compile_filters() {
  return {base_filter(), value_filter(), command_filter(false), command_filter(true)};
}

}  // namespace tb::jail
