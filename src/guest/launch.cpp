// SPDX-License-Identifier: Apache-2.0
#include "guest/launch.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "guest/confine.h"
#include "guest/terminal.h"

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

namespace tb::guest {
namespace {

constexpr int kFirstPassed = 3;

struct Child {
  const Launch* launch;
  char* const* argv;
  char* const* env;
  int status;  // where a failure is told
};

[[noreturn]] void give_up(const Child& child, const char* step) {
  const Step report{step, errno};
  (void)!::write(child.status, &report, sizeof report);
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

// First out of each other's way, and the status too: any of them may have a number that is wanted.
void pass_descriptors(Child& child) {
  constexpr int kAside = 16;
  std::vector<int> from = child.launch->passed;
  if (from.empty()) return;
  from.push_back(child.status);
  for (int& fd : from) {
    if ((fd = ::fcntl(fd, F_DUPFD_CLOEXEC, kAside)) < 0) give_up(child, "pass descriptors");
  }
  child.status = from.back();
  from.pop_back();
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (::dup2(from[i], kFirstPassed + static_cast<int>(i)) < 0) give_up(child, "pass descriptors");
  }
}

[[noreturn]] void run_child(Child& child) {
  const Launch& launch = *child.launch;
  ::setsid();
  if (launch.terminal && take_terminal(launch.input) != 0) give_up(child, "take the terminal");
  become_tenant(child);
  if (::dup2(launch.input, 0) < 0 || ::dup2(launch.output, 1) < 0 || ::dup2(launch.error, 2) < 0) {
    give_up(child, "connect the standard streams");
  }
  pass_descriptors(child);
  if (::chdir(launch.start->cwd.c_str()) != 0) give_up(child, "cwd");
  if (launch.followed) ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  const bool filtered = launch.filtered && !launch.config->in_container;
  if (filtered && add_filter(launch.config->command_filter) != 0) give_up(child, "seccomp");
  // Marked, not closed: the way to report a failed exec(2) must stay open until then.
  const auto others = static_cast<unsigned>(kFirstPassed + launch.passed.size());
  if (::syscall(SYS_close_range, others, ~0u, CLOSE_RANGE_CLOEXEC) != 0) {
    give_up(child, "close inherited descriptors");
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (launch.program) {
    ::execve(launch.program, child.argv, child.env);
  } else {
    execute(child.argv, child.env);
  }
  give_up(child, "exec");
}

// A copy of PID 1, small as it is, in the command's cgroup from its first moment.
long spawn(int cgroup) {
  // Filters of container engines refuse clone3(2), whose flags they can't see.
  if (cgroup < 0) return ::fork();
  clone_args args{};
  args.exit_signal = SIGCHLD;
  args.flags = CLONE_INTO_CGROUP;
  args.cgroup = static_cast<std::uint64_t>(cgroup);
  return ::syscall(SYS_clone3, &args, sizeof args);
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
    shell = {"bash", "-c", launch.passed.empty() ? launch.start->script : ". /dev/fd/3"};
  }
  const std::vector<char*> argv = pointers(shell.empty() ? launch.start->argv : shell);
  const std::vector<char*> env = pointers(launch.start->env);
  Launched result;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    result.failed = {"make pipes", errno};
    return result;
  }
  Child child{&launch, argv.data(), env.data(), ends[1]};
  const long pid = spawn(launch.cgroup);
  if (pid == 0) run_child(child);
  const int why = errno;
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    result.failed = {"fork", why};
  } else {
    result.pid = static_cast<int>(pid);
    result.status = ends[0];
  }
  return result;
}

int read_status(int status, Step& step) {
  const ssize_t n = ::read(status, &step, sizeof step);
  if (n == sizeof step) return -1;
  return n == 0 ? 1 : 0;
}

}  // namespace tb::guest
