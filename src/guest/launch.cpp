// SPDX-License-Identifier: Apache-2.0
#include "guest/launch.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "guest/confine.h"

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

namespace tb::guest {
namespace {

struct Child {
  const Launch* launch;
  char* const* argv;
  char* const* env;
  Launched* result;
};

[[noreturn]] void give_up(const Child& child, const char* step) {
  // The memory is shared with PID 1, which waits until we are gone: this is the whole report.
  child.result->step = step;
  child.result->number = errno;
  ::_exit(127);
}

const char* find_env(char* const* env, std::string_view name) {
  for (; *env; ++env) {
    const std::string_view entry = *env;
    if (entry.size() > name.size() && entry[name.size()] == '=' && entry.starts_with(name)) {
      return *env + name.size() + 1;
    }
  }
  return nullptr;
}

// execvp with the command's own PATH, not ours. Returns only on failure.
void execute(char* const* argv, char* const* env) {
  if (std::strchr(argv[0], '/')) {
    ::execve(argv[0], argv, env);
    return;
  }
  const char* path = find_env(env, "PATH");
  std::string_view rest = path ? path : "/usr/local/bin:/usr/bin:/bin";
  int refused = 0;
  while (true) {
    const std::size_t colon = rest.find(':');
    const std::string_view dir = rest.substr(0, colon);
    char file[4096];
    const std::size_t name_size = std::strlen(argv[0]);
    if (dir.size() + 1 + name_size < sizeof file) {
      std::memcpy(file, dir.data(), dir.size());
      file[dir.size()] = '/';
      std::memcpy(file + dir.size() + 1, argv[0], name_size + 1);
      ::execve(dir.empty() ? argv[0] : file, argv, env);
      if (errno == EACCES) refused = errno;
      if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) return;
    }
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  errno = refused ? refused : ENOENT;
}

void become_tenant(const Child& child) {
  const Config& config = *child.launch->config;
  if (::getuid() == config.uid) return;  // rootless: there is only one uid
  // The raw calls: no other thread has to follow.
  if (::syscall(SYS_setresgid, config.gid, config.gid, config.gid) != 0) give_up(child, "setgid");
  if (::syscall(SYS_setresuid, config.uid, config.uid, config.uid) != 0) give_up(child, "setuid");
}

extern "C" [[noreturn, gnu::used]] void tb_child_main(Child* child) {
  const Launch& launch = *child->launch;
  ::setsid();
  become_tenant(*child);
  if (::dup2(launch.input, 0) < 0 || ::dup2(launch.output, 1) < 0 || ::dup2(launch.error, 2) < 0) {
    give_up(*child, "connect the standard streams");
  }
  if (launch.script >= 0 && ::dup2(launch.script, 3) < 0) give_up(*child, "pass the script");
  if (::chdir(launch.start->cwd.c_str()) != 0) give_up(*child, "cwd");
  if (add_filter(launch.config->command_filter) != 0) give_up(*child, "seccomp");
  if (::syscall(SYS_close_range, launch.script >= 0 ? 4u : 3u, ~0u, 0) != 0) {
    give_up(*child, "close inherited descriptors");
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  execute(child->argv, child->env);
  give_up(*child, "exec");
}

alignas(64) char child_stack[64 << 10];

// clone3 into the cgroup, sharing our memory, on a stack of its own; we sleep until it executes.
long spawn(Child& child, int cgroup) {
  clone_args args{};
  args.flags = CLONE_VM | CLONE_VFORK;
  args.exit_signal = SIGCHLD;
  args.stack = reinterpret_cast<std::uintptr_t>(child_stack);
  args.stack_size = sizeof child_stack;
  if (cgroup >= 0) {
    args.flags |= CLONE_INTO_CGROUP;
    args.cgroup = static_cast<std::uint64_t>(cgroup);
  }
  long result;
#if defined(__x86_64__)
  register void* entry asm("r12") = reinterpret_cast<void*>(&tb_child_main);
  register void* argument asm("r13") = &child;
  asm volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov %%r13, %%rdi\n\t"
      "call *%%r12\n\t"
      "ud2\n"
      "1:"
      : "=a"(result)
      : "a"(SYS_clone3), "D"(&args), "S"(sizeof args), "r"(entry), "r"(argument)
      : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long number asm("x8") = SYS_clone3;
  register void* first asm("x0") = &args;
  register long second asm("x1") = sizeof args;
  register void* entry asm("x19") = reinterpret_cast<void*>(&tb_child_main);
  register void* argument asm("x20") = &child;
  asm volatile(
      "svc #0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "mov x0, x20\n\t"
      "blr x19\n\t"
      "brk #0\n"
      "1:"
      : "+r"(first)
      : "r"(number), "r"(second), "r"(entry), "r"(argument)
      : "memory", "cc");
  result = reinterpret_cast<long>(first);
#else
#error "the guest starts programs on x86-64 and arm64"
#endif
  return result;
}

std::vector<char*> pointers(const std::vector<std::string>& values) {
  std::vector<char*> list;
  list.reserve(values.size() + 1);
  for (const std::string& value : values) list.push_back(const_cast<char*>(value.c_str()));
  list.push_back(nullptr);
  return list;
}

}  // namespace

Launched launch(const Launch& launch) {
  std::vector<std::string> shell;
  if (!launch.start->script.empty()) {
    shell = {"bash", "-c", launch.script >= 0 ? ". /dev/fd/3" : launch.start->script};
  }
  const std::vector<char*> argv = pointers(shell.empty() ? launch.start->argv : shell);
  const std::vector<char*> env = pointers(launch.start->env);
  Launched result;
  Child child{&launch, argv.data(), env.data(), &result};
  const long pid = spawn(child, launch.cgroup);
  if (pid < 0) {
    result.step = "fork";
    result.number = static_cast<int>(-pid);
  } else {
    result.pid = static_cast<int>(pid);
  }
  return result;
}

}  // namespace tb::guest
