// SPDX-License-Identifier: Apache-2.0
#include "e2b/ends.h"

#include <csignal>

namespace tb::e2b {
namespace {

struct Name {
  std::string_view text;
  int number;
};

// As Go's syscall package calls them on Linux.
constexpr Name kSignals[] = {
    {"hangup", SIGHUP},
    {"interrupt", SIGINT},
    {"quit", SIGQUIT},
    {"illegal instruction", SIGILL},
    {"trace/breakpoint trap", SIGTRAP},
    {"aborted", SIGABRT},
    {"bus error", SIGBUS},
    {"floating point exception", SIGFPE},
    {"killed", SIGKILL},
    {"user defined signal 1", SIGUSR1},
    {"segmentation fault", SIGSEGV},
    {"user defined signal 2", SIGUSR2},
    {"broken pipe", SIGPIPE},
    {"alarm clock", SIGALRM},
    {"terminated", SIGTERM},
    {"stack fault", SIGSTKFLT},
    {"CPU time limit exceeded", SIGXCPU},
    {"file size limit exceeded", SIGXFSZ},
    {"virtual timer expired", SIGVTALRM},
    {"profiling timer expired", SIGPROF},
    {"I/O possible", SIGIO},
    {"power failure", SIGPWR},
    {"bad system call", SIGSYS},
};

// "signal: killed", "signal: aborted (core dumped)", "signal: signal 34"
int signal_of(std::string_view status) {
  constexpr std::string_view kPrefix = "signal: ";
  if (!status.starts_with(kPrefix)) return 0;
  status.remove_prefix(kPrefix.size());
  constexpr std::string_view kCore = " (core dumped)";
  if (status.ends_with(kCore)) status.remove_suffix(kCore.size());
  for (const Name& name : kSignals) {
    if (name.text == status) return name.number;
  }
  int number = 0;
  if (status.starts_with("signal ")) {
    for (const char c : status.substr(7)) {
      if (c < '0' || c > '9' || number > 100) return 0;
      number = number * 10 + (c - '0');
    }
  }
  return number;
}

}  // namespace

sandbox::Exit to_exit(const json::object& end) {
  sandbox::Exit exit;
  exit.code = static_cast<int>(number_of(end, "exitCode"));
  const int number = signal_of(text_of(end, "status"));
  if (number == 0 && (flag_of(end, "exited") || exit.code >= 0)) return exit;
  exit.cause = sandbox::Cause::signal;
  exit.signal = number == 0 ? SIGKILL : number;
  exit.code = 128 + exit.signal;
  return exit;
}

}  // namespace tb::e2b
