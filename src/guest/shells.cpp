// SPDX-License-Identifier: Apache-2.0
// Shells among the commands: opened, given runs one at a time, freed of runs that don't end, and
// opened again when they are gone.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

#include "guest/commands.h"
#include "os/fdpass.h"

namespace tb::guest {
namespace {

constexpr std::size_t kMaxShells = 16;
constexpr std::uint64_t kPress = 150 * 1000;      // microseconds between attempts to end a run
constexpr std::uint64_t kPatience = 2000 * 1000;  // then the shell itself is ended
constexpr std::uint64_t kLook = 500 * 1000;       // how often a run is looked after
constexpr std::uint64_t kSilence = 1500 * 1000;   // for a shell that should have answered

bool is_directory(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

void Commands::open_shell(Command& command, Start start) {
  const auto shells = std::count_if(commands_.begin(), commands_.end(),
                                    [](const auto& other) { return other->shell != nullptr; });
  command.shell = std::make_unique<Shell>();
  Shell& shell = *command.shell;
  start.argv = {"bash", "--norc", "--noprofile", "--noediting", "-i"};
  start.script.clear();
  shell.state.id = start.id;
  shell.state.note = start.note;
  shell.state.cwd = start.cwd;
  shell.start = std::move(start);
  const char* failed = nullptr;
  errno = EAGAIN;
  if (static_cast<std::size_t>(shells) >= kMaxShells || commands_.size() >= kMaxCommands) {
    failed = "open so many shells";
  } else if (!(failed = make_place(shell))) {
    failed = open_again(command);
  }
  if (!failed) return;
  command.failure = Failure{command.id, errno, failed};
  cgroups_.give(command.cgroup);
  command.cgroup = -1;
}

// With what the newest snapshot knows.
const char* Commands::open_again(Command& command) {
  Shell& shell = *command.shell;
  int child[3] = {-1, -1, -1};
  const char* failed = open_sockets(shell, child);
  if (!failed && cgroups_.there() && command.cgroup < 0 && (command.cgroup = cgroups_.take()) < 0) {
    failed = "make a cgroup";
  }
  if (!failed) {
    if (shell.state.generation > 0 && !is_directory(shell.start.cwd)) shell.start.cwd = "/";
    if (command.minder.pid > 0) {
      old_minders_.push_back(command.minder.pid);
      shell.minders.push_back(command.minder.pid);
    }
    close_fd(command.minder.reports);
    command.minder = Minder{};
    command.began_us = now_us();
    Launch launch;
    launch.start = &shell.start;
    launch.config = &config_;
    launch.input = child[0];
    launch.output = child[1];
    launch.error = child[2];
    launch.cgroup = command.cgroup >= 0 ? cgroups_.dir_fd(command.cgroup) : -1;
    const Step step = run(command, launch);
    errno = step.number;
    failed = step.text;
  }
  const int why = errno;
  for (int& fd : child) close_fd(fd);
  if (failed) {
    shell.close_sockets();
    errno = why;
    return failed;
  }
  ++shell.state.generation;
  shell.state.restored = shell.snapshot >= 0;
  shell.state.what = ShellState::What::waits;
  shell.told = false;
  shell.alive = true;
  watch(shell.words);
  feed_opening(shell);
  return nullptr;
}

void Commands::start_run(Command& command, const Start& start) {
  Command* const home = find(start.shell);
  const char* failed = nullptr;
  if (!home || !home->shell || home->failure || home->exit) {
    errno = ENOENT;
    failed = "find the shell";
  } else if (home->shell->state.what == ShellState::What::runs) {
    errno = EBUSY;
    failed = "run two commands at once in a shell";
  } else if (commands_.size() >= kMaxCommands) {
    errno = EAGAIN;
    failed = "run so many commands at once";
  } else if (home->shell->alive || !(failed = open_again(*home))) {
    failed = place_run(*home->shell, start, command.ends);
    if (!failed) home->shell->older = newcomers(*home);  // of the run before, and of all others
    // It may be dead, and we have not heard of it yet.
    if (!failed && !feed_run(*home->shell, start.id)) {
      drop_leader(*home);
      if (!(failed = open_again(*home)) && !feed_run(*home->shell, start.id)) {
        failed = "reach the shell";
      }
    }
  }
  if (failed) {
    command.failure = Failure{start.id, errno, failed};
    if (home && home->shell) remove_run(*home->shell, start.id);
    command.ends.close_child();
    return;
  }
  Shell& shell = *home->shell;
  command.in_shell = start.shell;
  command.running = true;
  command.began_us = now_us();
  if (start.timeout_ms > 0) command.deadline_us = command.began_us + start.timeout_ms * 1000;
  shell.cpu_us = home->cgroup >= 0 ? static_cast<std::int64_t>(cgroups_.cpu_us(home->cgroup)) : 0;
  shell.state.what = ShellState::What::runs;
  shell.state.run = start.id;
  shell.told = false;
  shell.ending = false;
  shell.interrupt = {};
  shell.answer.reset();
  shell.silent_us = 0;
  shell.next_us = command.began_us + kLook;
}

// All that the shell started since the run began; all but its leader while none is at work.
std::vector<int> Commands::newcomers(const Command& command) const {
  std::vector<int> all;
  if (command.cgroup >= 0) {
    all = cgroups_.processes(command.cgroup);
  } else if (command.minder.pid > 0) {
    all = below(command.minder.pid);
  }
  const Shell& shell = *command.shell;
  const bool runs = shell.state.what == ShellState::What::runs;
  std::erase_if(
      all, [&](int pid) { return pid == command.pid || (runs && contains(shell.older, pid)); });
  // The last of a pipeline has its status, and ends well if those before it are ended first.
  std::sort(all.rbegin(), all.rend());
  return all;
}

// A cgroup is ended as a whole, whatever forks in it: so those who are to stay leave it first.
void Commands::end_newcomers(Command& command, bool spare_leader) {
  Shell& shell = *command.shell;
  std::vector<int> others = newcomers(command);
  if (others.empty() && spare_leader) return;
  const int fresh = command.cgroup >= 0 ? cgroups_.take() : -1;
  if (fresh >= 0) {
    const bool moved = !spare_leader || cgroups_.move(fresh, command.pid) == 0 || errno == ESRCH;
    for (const int pid : shell.older) {
      if (moved) cgroups_.move(fresh, pid);
    }
    if (moved) {
      shell.cpu_us += static_cast<std::int64_t>(cgroups_.cpu_us(fresh)) -
                      static_cast<std::int64_t>(cgroups_.cpu_us(command.cgroup));
      cgroups_.kill(command.cgroup);
      cgroups_.give(command.cgroup);
      command.cgroup = fresh;
      return;
    }
    cgroups_.give(fresh);
  }
  for (int round = 0; round < 20 && !others.empty(); ++round) {
    for (const int pid : others) ::kill(pid, SIGSTOP);  // so that none forks while others are ended
    for (const int pid : others) ::kill(pid, SIGKILL);
    others = newcomers(command);
  }
  if (!spare_leader && command.pid > 0) ::kill(command.pid, SIGKILL);
}

// Nobody waits for its end: it is of no use any more.
void Commands::drop_leader(Command& command) {
  if (command.pid > 0) ::kill(command.pid, SIGKILL);
  command.pid = -1;
  command.shell->alive = false;
  command.shell->close_sockets();
}

void Commands::on_words(Command& command) {
  Shell& shell = *command.shell;
  const RunEnd end = listen(shell, command.pid);
  if (!end.any || shell.state.what != ShellState::What::runs) return;
  if (!shell.answer) shell.answer = end.code;
  // What we sent to end or interrupt a run must not hit the next one.
  if (!end.synchronous) return;
  const int status = shell.ending ? SIGKILL : *shell.answer << 8;
  if (end.restricted) drop_leader(command);
  finish_run(command, status);
}

void Commands::end_run(Command& run, Cause cause) {
  Command* const home = find(run.in_shell);
  if (!home || run.exit) return;
  on_words(*home);  // it may have ended by itself
  Shell& shell = *home->shell;
  if (run.exit || shell.ending) return;
  run.ended_by = cause;
  shell.ending = true;
  shell.last_us = now_us() + kPatience;
  shell.next_us = 0;
  press(*home);
}

// First by the trap that the shell has for this; from the second time on by an interrupt, too.
void Commands::press(Command& command) {
  Shell& shell = *command.shell;
  if (command.pid > 0) {
    ::kill(command.pid, SIGCONT);
    ::kill(command.pid, SIGRTMAX);
    if (shell.next_us != 0) ::kill(command.pid, SIGINT);
  }
  end_newcomers(command, true);
  feed_question(shell);
  shell.next_us = now_us() + kPress;
}

// Returns when to come again; 0: no need.
std::uint64_t Commands::tend(Command& command, std::uint64_t now) {
  Shell& shell = *command.shell;
  if (shell.state.what != ShellState::What::runs) return 0;
  if (now < shell.next_us) return shell.next_us;
  if (shell.interrupt.rounds > 0 && !shell.ending) {
    interrupt(command);
    return shell.next_us;
  }
  if (shell.ending && now < shell.last_us) {
    press(command);
    return shell.next_us;
  }
  shell.next_us = now + kLook;
  bool lost = shell.ending;
  // Who has executed another program does not speak to us, and runs on.
  if (!shell.ending && shell.words >= 0 && has_read_all(shell)) {
    if (shell.silent_us == 0) shell.silent_us = now;
    lost = now - shell.silent_us >= kSilence;
  }
  if (lost) {
    if (Command* run = find(shell.state.run); run && run->ended_by == Cause::exited) {
      run->ended_by = Cause::killed;
    }
    shell.ending = true;
    shell.last_us = 0;
    end_newcomers(command, false);
  }
  return shell.next_us;
}

// `status` as wait4(2) would tell it.
void Commands::finish_run(Command& command, int status) {
  Shell& shell = *command.shell;
  if (shell.ending && shell.alive) end_newcomers(command, true);
  const std::uint32_t id = shell.state.run;
  std::int64_t cpu_us = 0;
  if (command.cgroup >= 0) {
    cpu_us = static_cast<std::int64_t>(cgroups_.cpu_us(command.cgroup)) - shell.cpu_us;
  }
  shell.nonces.clear();
  shell.ending = false;
  shell.told = false;
  shell.state.what = shell.alive ? ShellState::What::waits : ShellState::What::dead;
  remove_run(shell, id);
  if (Command* run = find(id)) {
    run->deadline_us = 0;
    run->ends.close_child();
    ended(*run, status, static_cast<std::uint64_t>(std::max<std::int64_t>(cpu_us, 0)), 0);
  }
  if (shell.alive) {
    feed_snapshot(shell, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + SIGKILL);
  } else if (!command.exit) {
    open_again(command);  // if it can't be, the next run tries again and says why
  }
}

void Commands::leader_ended(Command& command, int status) {
  Shell& shell = *command.shell;
  if (command.exit) return;
  if (shell.words >= 0) on_words(command);
  const Counters::Values now = counters_.read();
  shell.state.ended = 1;
  shell.state.ended_run = shell.state.what == ShellState::What::runs ? shell.state.run : 0;
  shell.state.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  shell.state.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  shell.state.cause = WIFSIGNALED(status) ? Cause::signal : Cause::exited;
  if (shell.state.signal == SIGKILL && counters_.oom_kills(command.counts, now) > 0) {
    shell.state.cause = Cause::oom;
  }
  if (shell.ending) shell.state.cause = Cause::killed;
  command.counts = now;
  command.pid = -1;
  shell.alive = false;
  shell.told = false;
  shell.close_sockets();
  if (shell.state.what == ShellState::What::runs) {
    finish_run(command, shell.ending ? SIGKILL : status);
  } else {
    // Not at once: what ended it may end the next one, again and again.
    shell.state.what = ShellState::What::dead;
  }
}

void Commands::close_shell(Command& command) {
  Shell& shell = *command.shell;
  if (command.exit) return;
  command.exit = Exited{};
  command.pid = -1;
  shell.alive = false;
  if (command.cgroup >= 0) {
    cgroups_.kill(command.cgroup);
    cgroups_.give(command.cgroup);
    command.cgroup = -1;
  }
  if (command.minder.pid > 0) shell.minders.push_back(command.minder.pid);
  for (const int minder : shell.minders) {
    if (minder != command.minder.pid && !contains(old_minders_, minder)) continue;
    signal_below(minder, SIGKILL);
    ::kill(minder, SIGKILL);
  }
  close_fd(command.minder.reports);
  shell.close_sockets();
  if (shell.state.what == ShellState::What::runs) {
    if (Command* run = find(shell.state.run)) run->ended_by = Cause::killed;
    finish_run(command, SIGKILL);
  }
  remove_place(shell);
  shell.state.what = ShellState::What::closed;
  shell.told = false;
}

bool Commands::tell_shell(int control, Command& command) {
  Shell& shell = *command.shell;
  if (!command.running || shell.told) return true;
  shell.state.pid = std::max(command.pid, 0);
  Writer out;
  shell.state.encode(out);
  shell.told = os::send_packet(control, out.view()) == 1;
  if (shell.told && command.exit) command.end_told = true;
  return shell.told;
}

}  // namespace tb::guest
