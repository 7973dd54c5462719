// SPDX-License-Identifier: Apache-2.0
// Runs the compiled filters as the kernel would, in a small interpreter of classic BPF.
#include "jail/filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <array>
#include <cstring>
#include <vector>

#include "jail/cgroups.h"

namespace tb::jail {
namespace {

constexpr std::uint64_t kGarbage = 0xdeadbeef00000000;

std::vector<sock_filter> program(const std::string& text) {
  std::vector<sock_filter> code(text.size() / sizeof(sock_filter));
  std::memcpy(code.data(), text.data(), code.size() * sizeof(sock_filter));
  return code;
}

bool jumps(const sock_filter& step, std::uint32_t a) {
  switch (BPF_OP(step.code)) {
    case BPF_JEQ: return a == step.k;
    case BPF_JGT: return a > step.k;
    case BPF_JGE: return a >= step.k;
    case BPF_JSET: return (a & step.k) != 0;
  }
  throw std::runtime_error{"unknown jump"};
}

// What the program returns; throws on an instruction that libseccomp does not make.
std::uint32_t interpret(const std::vector<sock_filter>& code, const seccomp_data& data) {
  std::uint32_t a = 0;
  std::array<std::uint32_t, BPF_MEMWORDS> memory{};
  for (std::size_t pc = 0; pc < code.size(); ++pc) {
    const sock_filter& step = code[pc];
    switch (BPF_CLASS(step.code)) {
      case BPF_LD:
        if (BPF_MODE(step.code) == BPF_MEM) {
          a = memory.at(step.k);
        } else {
          if (BPF_MODE(step.code) != BPF_ABS || step.k + 4 > sizeof data) {
            throw std::runtime_error{"unknown load"};
          }
          std::memcpy(&a, reinterpret_cast<const char*>(&data) + step.k, 4);
        }
        break;
      case BPF_ST: memory.at(step.k) = a; break;
      case BPF_ALU:
        if (BPF_OP(step.code) != BPF_AND) throw std::runtime_error{"unknown arithmetic"};
        a &= step.k;
        break;
      case BPF_JMP:
        if (BPF_OP(step.code) == BPF_JA) {
          pc += step.k;
        } else {
          pc += jumps(step, a) ? step.jt : step.jf;
        }
        break;
      case BPF_RET: return step.k;
      default: throw std::runtime_error{"unknown instruction"};
    }
  }
  throw std::runtime_error{"ran off the end"};
}

struct Call {
  int number;
  std::array<std::uint64_t, 6> args{};
  std::uint32_t arch = AUDIT_ARCH_X86_64;
};

// As seccomp_run_filters(): the last one installed is asked first, the most severe answer counts.
std::uint32_t ask(const std::vector<const std::string*>& installed, const Call& call) {
  seccomp_data data{};
  data.nr = call.number;
  data.arch = call.arch;
  for (std::size_t i = 0; i < 6; ++i) data.args[i] = call.args[i];
  std::uint32_t result = SECCOMP_RET_ALLOW;
  const auto severity = [](std::uint32_t answer) {
    return static_cast<std::int32_t>(answer & SECCOMP_RET_ACTION_FULL);
  };
  for (auto filter = installed.rbegin(); filter != installed.rend(); ++filter) {
    const std::uint32_t answer = interpret(program(**filter), data);
    if (severity(answer) < severity(result)) result = answer;
  }
  return result;
}

constexpr std::uint32_t error(int number) {
  return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(number);
}

class Filter : public testing::Test {
 protected:
  static void SetUpTestSuite() {
#ifndef __x86_64__
    GTEST_SKIP() << "the numbers here are those of x86-64";
#endif
    if (!filters_) filters_ = new Filters{compile_filters()};
  }
  // As guest/confine.cpp installs them.
  static std::uint32_t guest(const Call& call) {
    return ask({&filters_->base, &filters_->values}, call);
  }
  static std::uint32_t command(const Call& call) {
    return ask({&filters_->base, &filters_->values, &filters_->command}, call);
  }
  static std::uint32_t confined_command(const Call& call) {
    return ask({&filters_->base, &filters_->values, &filters_->confined_command}, call);
  }
  static const Filters* filters_;
};
const Filters* Filter::filters_ = nullptr;

TEST_F(Filter, ProgramsAreWholeAndShortEnoughForTheKernel) {
  for (const std::string* text :
       {&filters_->base, &filters_->values, &filters_->command, &filters_->confined_command}) {
    EXPECT_EQ(text->size() % sizeof(sock_filter), 0u);
    EXPECT_GT(text->size(), 0u);
    EXPECT_LT(text->size() / sizeof(sock_filter), std::size_t{BPF_MAXINSNS});
  }
}

TEST_F(Filter, OnlyMemoryFilesSetAConfinedCommandApart) {
  for (int number = 0; number < 500; ++number) {
    if (number == SYS_memfd_create) continue;
    EXPECT_EQ(confined_command({number}), command({number})) << number;
  }
  EXPECT_EQ(command({SYS_memfd_create}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(confined_command({SYS_memfd_create}), error(EACCES));
  EXPECT_EQ(guest({SYS_memfd_create}), SECCOMP_RET_ALLOW);
}

TEST_F(Filter, EveryNumberHasAnAnswer) {
  for (int number = -2; number < 700; ++number) {
    for (const std::uint64_t value : {0ull, 1ull, 0x5412ull, ~0ull}) {
      Call call{number};
      call.args.fill(value);
      EXPECT_NO_THROW(command(call)) << number;
    }
  }
}

TEST_F(Filter, OrdinaryCallsAreAllowed) {
  for (const int number : {SYS_read, SYS_write, SYS_openat, SYS_execve, SYS_mmap, SYS_futex,
                           SYS_fork, SYS_vfork, SYS_wait4, SYS_exit_group, SYS_getrandom,
                           SYS_epoll_wait, SYS_statx, SYS_connect, SYS_kill, SYS_rt_sigreturn}) {
    EXPECT_EQ(command({number}), SECCOMP_RET_ALLOW) << number;
  }
}

TEST_F(Filter, WhatCouldWidenTheSandboxIsNotPermitted) {
  for (const int number : {SYS_unshare,
                           SYS_setns,
                           SYS_mount,
                           SYS_umount2,
                           SYS_pivot_root,
                           SYS_chroot,
                           SYS_bpf,
                           SYS_keyctl,
                           SYS_perf_event_open,
                           SYS_userfaultfd,
                           SYS_init_module,
                           SYS_finit_module,
                           SYS_open_by_handle_at,
                           SYS_process_vm_writev,
                           SYS_reboot,
                           SYS_kexec_load,
                           SYS_fsopen,
                           SYS_move_mount,
                           SYS_io_uring_setup,
                           SYS_pidfd_getfd}) {
    EXPECT_EQ(command({number}), error(EPERM)) << number;
    EXPECT_EQ(guest({number}), error(EPERM)) << number;
  }
}

TEST_F(Filter, OnlyPid1HearsOfEndsAndReadsNobodysMemory) {
  for (std::uint64_t request = 0; request < 0x4300; ++request) {
    const bool harmless = request == PTRACE_TRACEME || request == PTRACE_CONT ||
                          request == PTRACE_DETACH || request == PTRACE_SETOPTIONS ||
                          request == PTRACE_GETEVENTMSG || request == PTRACE_PEEKUSER;
    EXPECT_EQ(guest({SYS_ptrace, {request}}), harmless ? SECCOMP_RET_ALLOW : error(ENOSYS));
    EXPECT_EQ(command({SYS_ptrace, {request}}), error(EPERM)) << request;
  }
}

TEST_F(Filter, UnknownCallsAreAsOnAnOlderKernel) {
  for (const int number : {335, 600, 9999, 0x3fffffff}) {
    EXPECT_EQ(command({number}), error(ENOSYS)) << number;
  }
}

TEST_F(Filter, NoChildIsMadeForPid1ToFollow) {
  EXPECT_NE(command({SYS_clone, {CLONE_PTRACE | 17}}), SECCOMP_RET_ALLOW);
  EXPECT_NE(guest({SYS_clone, {CLONE_PTRACE | 17}}), SECCOMP_RET_ALLOW);
}

TEST_F(Filter, CloneMakesProcessesButNoNamespaces) {
  EXPECT_EQ(command({SYS_clone, {17}}), SECCOMP_RET_ALLOW);
  const std::uint64_t thread = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
                               CLONE_SYSVSEM | CLONE_SETTLS;
  EXPECT_EQ(command({SYS_clone, {thread}}), SECCOMP_RET_ALLOW);
  for (const std::uint64_t flag : {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET,
                                   CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP}) {
    EXPECT_NE(command({SYS_clone, {flag | 17}}), SECCOMP_RET_ALLOW) << flag;
    EXPECT_NE(command({SYS_clone, {flag | kGarbage}}), SECCOMP_RET_ALLOW) << flag;
    EXPECT_NE(guest({SYS_clone, {flag | thread}}), SECCOMP_RET_ALLOW) << flag;
  }
}

TEST_F(Filter, Clone3IsForPidOneAlone) {
  EXPECT_EQ(guest({SYS_clone3}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(command({SYS_clone3}), error(ENOSYS));
}

TEST_F(Filter, SocketsAreUnixTcpAndUdp) {
  for (const std::uint64_t family : {AF_UNIX, AF_INET, AF_INET6}) {
    EXPECT_EQ(command({SYS_socket, {family, SOCK_STREAM, 0}}), SECCOMP_RET_ALLOW) << family;
    EXPECT_EQ(command({SYS_socket, {family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0}}),
              SECCOMP_RET_ALLOW)
        << family;
  }
  EXPECT_EQ(command({SYS_socket, {AF_INET, SOCK_STREAM, 6}}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(command({SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0}}), SECCOMP_RET_ALLOW);
  EXPECT_NE(command({SYS_socket, {AF_INET, SOCK_RAW, 1}}), SECCOMP_RET_ALLOW);
  EXPECT_NE(command({SYS_socket, {AF_INET, SOCK_DGRAM, 1}}), SECCOMP_RET_ALLOW);
  EXPECT_NE(command({SYS_socket, {AF_INET, SOCK_STREAM, 262}}), SECCOMP_RET_ALLOW);  // MPTCP
}

TEST_F(Filter, OtherFamiliesAreRefusedWhateverStandsInTheUpperBits) {
  for (const std::uint64_t family : {AF_NETLINK, AF_PACKET, AF_ALG, AF_VSOCK, AF_KEY, AF_BLUETOOTH,
                                     AF_TIPC, AF_RDS, AF_CAN, AF_XDP, 45, 100}) {
    for (const std::uint64_t upper : {std::uint64_t{0}, kGarbage, std::uint64_t{1} << 32}) {
      for (const std::uint64_t type : {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET}) {
        EXPECT_NE(command({SYS_socket, {family | upper, type, 0}}), SECCOMP_RET_ALLOW) << family;
        EXPECT_NE(command({SYS_socketpair, {family | upper, type, 0}}), SECCOMP_RET_ALLOW)
            << family;
      }
    }
  }
}

// Libraries that ask for interfaces and routes go on without when they hear just this.
TEST_F(Filter, NetlinkIsAnUnsupportedFamily) {
  EXPECT_EQ(command({SYS_socket, {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0}}), error(EAFNOSUPPORT));
}

TEST_F(Filter, TerminalsCannotBeTypedInto) {
  for (const std::uint64_t upper : {std::uint64_t{0}, kGarbage}) {
    for (const std::uint64_t request : {TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD}) {
      EXPECT_EQ(command({SYS_ioctl, {0, request | upper}}), error(EPERM)) << request;
      EXPECT_EQ(guest({SYS_ioctl, {0, request | upper}}), error(EPERM)) << request;
    }
  }
  for (const std::uint64_t request : {TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIOCLEX}) {
    EXPECT_EQ(command({SYS_ioctl, {0, request}}), SECCOMP_RET_ALLOW) << request;
  }
}

TEST_F(Filter, BtrfsIsNotThere) {
  const std::uint64_t requests[] = {0x5000940e, 0x50009418, 0x40049409, 0xc0189436, 0x9408};
  for (const std::uint64_t request : requests) {
    EXPECT_EQ(command({SYS_ioctl, {3, request}}), error(ENOTTY)) << request;
    EXPECT_EQ(command({SYS_ioctl, {3, request | kGarbage}}), error(ENOTTY)) << request;
  }
}

TEST_F(Filter, SomeProcessControlsAreRefused) {
  EXPECT_EQ(command({SYS_prctl, {PR_SET_MM}}), error(EPERM));
  EXPECT_EQ(command({SYS_prctl, {PR_SET_MM | kGarbage}}), error(EPERM));
  EXPECT_EQ(command({SYS_prctl, {PR_SET_NAME}}), SECCOMP_RET_ALLOW);
}

TEST_F(Filter, NoDevicesAreMade) {
  for (const std::uint64_t type : {S_IFCHR, S_IFBLK}) {
    EXPECT_NE(command({SYS_mknod, {0, type | 0666}}), SECCOMP_RET_ALLOW);
    EXPECT_NE(command({SYS_mknodat, {0, 0, type | 0666}}), SECCOMP_RET_ALLOW);
  }
  EXPECT_EQ(command({SYS_mknod, {0, S_IFIFO | 0666}}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(command({SYS_mknodat, {0, 0, S_IFREG | 0600}}), SECCOMP_RET_ALLOW);
}

TEST_F(Filter, ThePersonaStaysLinux) {
  EXPECT_EQ(command({SYS_personality, {0}}), SECCOMP_RET_ALLOW);
  EXPECT_EQ(command({SYS_personality, {0xffffffff}}), SECCOMP_RET_ALLOW);
  EXPECT_NE(command({SYS_personality, {0x0040000}}), SECCOMP_RET_ALLOW);  // ADDR_NO_RANDOMIZE
}

TEST_F(Filter, OtherArchitecturesAreKilled) {
  for (const auto arch : {std::uint32_t{AUDIT_ARCH_I386}, std::uint32_t{AUDIT_ARCH_AARCH64}, 0u}) {
    for (const int number : {0, 1, 4, 120, 600}) {
      EXPECT_EQ(command({number, {}, arch}), SECCOMP_RET_KILL_PROCESS) << arch << " " << number;
    }
  }
}

TEST_F(Filter, X32NumbersAreKilled) {
  for (const int number : {SYS_read, SYS_write, SYS_unshare, 520, 547}) {
    EXPECT_EQ(command({number | 0x40000000}), SECCOMP_RET_KILL_PROCESS) << number;
  }
}

TEST(Cgroups, AreLookedForWithoutRights) {
  CgroupHost host;
  EXPECT_NO_THROW(host = find_cgroups());
  for (const std::string& controller : host.v2_controllers) {
    EXPECT_TRUE(host.has(controller));
    EXPECT_TRUE(host.on_v2(controller));
  }
  for (const auto& [controller, mount] : host.v1) {
    EXPECT_TRUE(host.has(controller));
    EXPECT_TRUE(mount.starts_with("/")) << mount;
  }
  EXPECT_FALSE(host.has("no such controller"));
}

}  // namespace
}  // namespace tb::jail
