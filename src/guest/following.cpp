// SPDX-License-Identifier: Apache-2.0
// The end of a process is told to its parent when all of its memory has been taken down, which
// takes longer than most short commands do. A shell that is followed stops before that, and PID 1
// tells its end, which is certain by then, first. It is followed only while it is alone: with its
// first signal, one from a child of its own too, and with another program in its place it is left.
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "guest/commands.h"

namespace tb::guest {
namespace {

constexpr std::uint64_t kDying = 20 * 1000;  // microseconds, if others still share what it had

void* as_pointer(long value) { return reinterpret_cast<void*>(value); }

}  // namespace

void Commands::stopped(int pid, int status, const rusage& usage) {
  const int event = status >> 16;
  if (!contains(followed_, pid) && event == 0) {
    begin_to_follow(pid, WSTOPSIG(status));
  } else if (event == PTRACE_EVENT_EXIT) {
    unsigned long code = 0;
    const bool ends = ::ptrace(PTRACE_GETEVENTMSG, pid, nullptr, &code) == 0;
    // Who ends another one wants it to be gone.
    const bool told = ends && WIFEXITED(static_cast<int>(code)) &&
                      command_gone(pid, static_cast<int>(code), usage);
    if (told) {
      dying_.push_back(pid);
      dying_until_us_ = now_us() + kDying;
    }
    stopped_.push_back(pid);
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
