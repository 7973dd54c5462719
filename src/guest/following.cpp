// SPDX-License-Identifier: Apache-2.0
// The end of a process is told to its parent when all of its memory has been taken down, which
// takes longer than most short commands do. A shell that is followed stops before that, and PID 1
// tells its end, which is certain by then, first. So does a program of the system that takes its
// place by exec(2). It is followed only while it is alone: with its first signal, one from a child
// of its own too, it is left.
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "guest/commands.h"

namespace tb::guest {
namespace {

// Microseconds. Longer than the kernel needs, unless something of it hangs.
constexpr std::uint64_t kDying = 2 * 1000 * 1000;

// Of more, the end takes as long as somebody might wait for the memory.
constexpr long kSmall = 16 * 1024;  // KiB

// What agents run all the time, and what does not care who follows it. Others might: who looks for
// a debugger finds PID 1 (TracerPid in /proc/self/status).
constexpr std::string_view kFollowed[] = {
    "awk",      "base64", "basename", "cat",       "chmod",    "cmp",      "comm",  "cp",
    "curl",     "cut",    "date",     "df",        "diff",     "dirname",  "du",    "egrep",
    "env",      "expr",   "fgrep",    "file",      "find",     "gawk",     "git",   "grep",
    "gunzip",   "gzip",   "head",     "hostname",  "id",       "jq",       "ln",    "ls",
    "mawk",     "md5sum", "mkdir",    "mktemp",    "mv",       "nproc",    "paste", "patch",
    "printenv", "ps",     "python",   "python3",   "readlink", "realpath", "rg",    "rm",
    "rmdir",    "sed",    "seq",      "sha256sum", "sort",     "stat",     "tac",   "tail",
    "tar",      "tee",    "touch",    "tr",        "tree",     "uname",    "uniq",  "unzip",
    "wc",       "which",  "whoami",   "xargs",     "xxd",      "zip"};

std::string proc_file(int pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

// By its name: the kernel tells a tracer of another uid no more. A tenant's own program of such a
// name is followed as well: to it a signal that it ignores may interrupt a wait, once.
bool is_of_the_system(int pid) {
  const int fd = ::open(proc_file(pid, "comm").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  char line[32];
  const ssize_t size = ::read(fd, line, sizeof line);
  ::close(fd);
  const std::string_view name{line, size > 0 ? static_cast<std::size_t>(size - 1) : 0};
  return std::binary_search(std::begin(kFollowed), std::end(kFollowed), name);
}

void* as_pointer(long value) { return reinterpret_cast<void*>(value); }

bool has_one_thread(int pid) {
  struct stat info{};
  constexpr nlink_t kNone = 2;
  return ::stat(proc_file(pid, "task").c_str(), &info) == 0 && info.st_nlink == kNone + 1;
}

// The first thread of several may end before the others, or because one of them runs a program:
// then its code is not the process's, and the others may be gone by now. Who ends for all has
// called exit_group(2).
bool ends_for_all(int pid) {
#ifdef __x86_64__
  long call = -1;
  const long at = offsetof(user_regs_struct, orig_rax);
  return ::syscall(SYS_ptrace, PTRACE_PEEKUSER, pid, at, &call) == 0 && call == SYS_exit_group;
#else
  return pid < 0;  // another processor's registers: its ends are told when they are over
#endif
}

bool ends_soon(int pid, int status, const rusage& usage) {
  // Who ends another one wants it to be gone.
  return WIFEXITED(status) && usage.ru_maxrss <= kSmall && ends_for_all(pid) && has_one_thread(pid);
}

}  // namespace

void Commands::stopped(int pid, int status, const rusage& usage) {
  const int event = status >> 16;
  if (!contains(followed_, pid) && event == 0) {
    begin_to_follow(pid, WSTOPSIG(status));
  } else if (event == PTRACE_EVENT_EXIT) {
    unsigned long code = 0;
    const bool ends = ::ptrace(PTRACE_GETEVENTMSG, pid, nullptr, &code) == 0;
    const bool told = ends && ends_soon(pid, static_cast<int>(code), usage) &&
                      command_gone(pid, static_cast<int>(code), usage);
    if (told) {
      dying_.push_back(pid);
      dying_until_us_ = now_us() + kDying;
    }
    stopped_.push_back(pid);
  } else if (event == PTRACE_EVENT_EXEC && is_of_the_system(pid)) {
    ::ptrace(PTRACE_CONT, pid, nullptr, nullptr);
  } else {
    std::erase(followed_, pid);
    ::ptrace(PTRACE_DETACH, pid, nullptr, as_pointer(event == 0 ? WSTOPSIG(status) : 0));
  }
}

// It stops by this signal when it has asked for it, or runs its program. Others may come before.
void Commands::begin_to_follow(int pid, int signal) {
  const bool asks = signal == SIGTRAP;
  const bool stops =
      signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
  if (asks) {
    ::ptrace(PTRACE_SETOPTIONS, pid, nullptr, as_pointer(PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC));
    followed_.push_back(pid);
  }
  ::ptrace(PTRACE_CONT, pid, nullptr, as_pointer(asks || stops ? 0 : signal));
}

// Some that were told to have ended still have their files, their locks and their pid.
bool Commands::any_dying() const { return !dying_.empty() && now_us() < dying_until_us_; }

void Commands::start_held() {
  for (Start& start : std::exchange(held_, {})) start_now(std::move(start));
}

void Commands::let_go() {
  for (const int pid : stopped_) {
    ::ptrace(PTRACE_DETACH, pid, nullptr, nullptr);
  }
  stopped_.clear();
}

void Commands::forget_followed(int pid) {
  std::erase(followed_, pid);
  std::erase(stopped_, pid);
  const bool last = std::erase(dying_, pid) > 0 && dying_.empty();
  if (!last) return;
  start_held();
  if (idle()) wish_refill();
}

}  // namespace tb::guest
