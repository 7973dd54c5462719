// SPDX-License-Identifier: Apache-2.0
#include "guest/commands.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "guest/clock.h"
#include "guest/input.h"
#include "os/fdpass.h"

namespace tb::guest {
namespace {

constexpr std::size_t kMaxArgument = 120 << 10;  // the kernel's MAX_ARG_STRLEN is 128 KiB

}  // namespace

Commands::~Commands() = default;

Commands::Commands(const Config& config, int epoll)
    : config_(config),
      epoll_(epoll),
      cgroups_(config.command_cgroups != 0),
      counters_(config.counters),
      last_counts_(counters_.read()) {
  // The first command should not pay for its cgroup.
  if (cgroups_.there()) cgroups_.give(cgroups_.take());
}

Command* Commands::find(std::uint32_t id) {
  for (const auto& command : commands_) {
    if (command->id == id) return command.get();
  }
  return nullptr;
}

bool Commands::later_runs(std::uint32_t id) const {
  return std::any_of(commands_.begin(), commands_.end(), [id](const auto& command) {
    return command->id > id && !command->exit && !command->failure;
  });
}

bool Commands::idle() const { return !later_runs(0); }

const char* Commands::prepare(Command& command, const Start& start) {
  if (commands_.size() >= kMaxCommands) {
    errno = EAGAIN;
    return "run so many commands at once";
  }
  if (const char* failed = open_streams(start, config_, command.ends)) return failed;
  ask_for_shell(start);
  return hand_over(command, start) ? nullptr : begin(command, start);
}

// Takes a cgroup, launches, and closes what only the child needs.
const char* Commands::begin(Command& command, const Start& start) {
  int script = -1;
  const char* failed = nullptr;
  if (start.script.size() > kMaxArgument &&
      (script = text_file("script", "exec 3<&-\n" + start.script, config_.confined)) < 0) {
    failed = "store the script";
  } else if (cgroups_.there() && (command.cgroup = cgroups_.take()) < 0) {
    failed = "make a cgroup";
  }
  if (!failed) {
    command.began_us = now_us();
    Launch launch;
    launch.start = &start;
    launch.config = &config_;
    launch.input = command.ends.child[0];
    launch.output = command.ends.child[1];
    launch.error = command.ends.child[2];
    launch.terminal = start.terminal != 0;
    launch.followed = !start.script.empty() && script < 0 && !start.terminal && cgroups_.there();
    if (script >= 0) launch.passed = {script};
    launch.cgroup = command.cgroup >= 0 ? cgroups_.dir_fd(command.cgroup) : -1;
    if (launch.followed && start.input_mode == InputMode::whole) {
      command.quiet_us = command.began_us + kShort;
    }
    const Step step = run(command, launch);
    errno = step.number;
    failed = step.text;
  }
  const int why = errno;
  command.ends.close_child();
  close_fd(script);
  errno = why;
  return failed;
}

void Commands::watch(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
}

Step Commands::run(Command& command, const Launch& launch) {
  Step failed;
  keep_originals_alone();
  if (cgroups_.there()) {
    const Launched launched = guest::launch(launch);
    command.pid = launched.pid;
    command.status = launched.status;
    failed = launched.failed;
    if (command.status >= 0) watch(command.status);
  } else {
    command.minder = launch_minded(launch, failed);
    if (command.minder.reports >= 0) watch(command.minder.reports);
  }
  return failed;
}

void Commands::on_report(int fd) {
  if (waiting_ && waiting_->minder.reports == fd) return hear_of_waiting();
  for (const auto& command : commands_) {
    if (command->offer == fd) {
      settle(*command);
      return;
    }
    if (command->status == fd) return on_status(*command);
    if (command->shell && command->shell->words == fd) return on_words(*command);
    if (command->minder.reports == fd) return on_minder(*command);
  }
}

void Commands::on_status(Command& command) {
  Step step;
  const int result = read_status(command.status, step);
  if (result == 0) return;
  close_fd(command.status);
  if (result > 0) {
    command.running = true;
  } else if (!command.exit && !opened_before(command)) {
    command.failure = Failure{command.id, step.number, step.text};
    cgroups_.give(command.cgroup);
    command.cgroup = -1;
  }
}

// The next command finds nothing that the last one had.
void Commands::start(Start start) {
  if (!any_dying()) return start_now(std::move(start));
  refill_us_ = 0;
  held_.push_back(std::move(start));
}

void Commands::start_now(Start start) {
  auto command = std::make_unique<Command>();
  command->id = start.id;
  command->note = start.note;
  refill_us_ = 0;  // not while there is work; its end is another occasion
  // Counters are read when a command ends; in between only what others left running moves them.
  const bool alone = commands_.empty() && !(cgroups_.there() && cgroups_.any_left_behind());
  command->counts = alone ? last_counts_ : counters_.read();
  if (start.kind == Kind::shell) {
    open_shell(*command, std::move(start));
  } else if (start.kind == Kind::run) {
    start_run(*command, start);
  } else if (const char* step = prepare(*command, start)) {
    fail(*command, step);
  } else if (start.timeout_ms > 0) {
    command->deadline_us = command->began_us + start.timeout_ms * 1000;
  }
  if (command->offer >= 0) command->again = std::make_unique<Start>(std::move(start));
  commands_.push_back(std::move(command));
}

void Commands::fail(Command& command, const char* step) {
  command.failure = Failure{command.id, errno, step};
  command.ends.close_child();
  cgroups_.give(command.cgroup);
  command.cgroup = -1;
}

void Commands::end(Command& command, Cause cause) {
  if (command.in_shell) return end_run(command, cause);
  if (!command.exit) command.ended_by = cause;
  if (command.cgroup >= 0) {
    cgroups_.kill(command.cgroup);
  } else if (command.minder.pid > 0) {
    signal_below(command.minder.pid, SIGKILL);
    ::kill(command.minder.pid, SIGKILL);  // the command may have stopped it
  }
}

void Commands::signal(const Signal& signal) {
  start_held();
  Command* command = find(signal.id);
  if (!command || command->failure) return;
  if (command->shell && signal.number == SIGKILL) return close_shell(*command);
  if (command->in_shell) return signal_run(*command, signal.number);
  if (signal.number == SIGKILL && signal.tree) return end(*command, Cause::killed);
  if (signal.tree && command->cgroup >= 0) {
    cgroups_.signal_all(command->cgroup, signal.number);
  } else if (signal.tree) {
    signal_below(command->minder.pid, signal.number);
  } else if (!command->exit && command->pid > 0) {
    if (signal.number == SIGKILL) command->ended_by = Cause::killed;
    ::kill(command->pid, signal.number);
  }
}

void Commands::close_input(const CloseInput& close) {
  start_held();
  if (Command* command = find(close.id)) command->ends.close_input();
}

bool Commands::drop_output(const Taken& stored, int control) {
  Taken dropped = stored;
  if (Command* command = find(stored.id)) {
    command->ends.drop_output(stored.stream, stored.offset);
    dropped.offset = command->ends.taken[stored.stream];
  }
  Writer out;
  dropped.encode(out, Message::dropped);
  return os::send_packet(control, out.view()) == 1;
}

void Commands::release(const Release& release) {
  if (Command* command = find(release.id)) {
    if (release.what & Release::kExit) {
      command->exit_released = true;
      if (!later_runs(release.id)) wish_refill();  // its end is another occasion
    }
    if (release.what & Release::kOutput) command->output_released = true;
  }
  forget_released();
}

void Commands::forget_released() {
  std::erase_if(commands_, [this](const std::unique_ptr<Command>& command) {
    const bool over = command->failure || (command->shell && command->exit)
                          ? command->end_told
                          : command->exit && command->exit_released && command->output_released;
    if (over) cgroups_.give(command->cgroup);
    // It may still mind what the command left running.
    if (over && command->minder.pid > 0) old_minders_.push_back(command->minder.pid);
    return over;
  });
}

int Commands::enforce_deadlines() {
  std::uint64_t next = 0;
  const std::uint64_t now = now_us();
  for (const auto& command : commands_) {
    if (command->deadline_us == 0 || command->exit) continue;
    if (command->deadline_us <= now) {
      command->deadline_us = 0;
      end(*command, Cause::timeout);
    } else if (next == 0 || command->deadline_us < next) {
      next = command->deadline_us;
    }
  }
  const auto soonest = [&next](std::uint64_t at) {
    if (at != 0 && (next == 0 || at < next)) next = at;
  };
  for (const auto& command : commands_) {
    if (command->shell) soonest(tend(*command, now));
    if (command->offer >= 0) soonest(tend_offer(*command, now));
    if (command->quiet_us > now && !command->start_told) soonest(command->quiet_us);
  }
  if (waiting_) soonest(tend_waiting(now));
  if (original_) soonest(tend_original(now));
  if (!any_dying()) {
    start_held();
    soonest(refill_us_);
  } else if (refill_us_ != 0 || !held_.empty()) {
    soonest(dying_until_us_);
  }
  if (next == 0) return -1;
  constexpr std::uint64_t kLongest = 3600ull * 1000;
  return next <= now ? 0 : static_cast<int>(std::min((next - now + 999) / 1000, kLongest));
}

void Commands::reap() {
  int status = 0;
  rusage usage{};
  pid_t pid;
  while ((pid = ::wait4(-1, &status, WNOHANG, &usage)) > 0) {
    std::erase(spared_, pid);
    reaped_ = pid;
    learn_pids();
    if (WIFSTOPPED(status)) {
      stopped(pid, status, usage);
      continue;
    }
    forget_followed(pid);
    if (original_ && original_->pid == pid) original_ended();
    if (waiting_ && waiting_->pid == pid) waiting_ended();
    if (!cgroups_.there()) minder_ended(pid, status);
    if (cgroups_.there()) command_gone(pid, status, usage);
  }
  reaped_ = -1;
}

// True: a command has ended with it.
bool Commands::command_gone(int pid, int status, const rusage& usage) {
  for (const auto& command : commands_) {
    if (command->pid != pid || command->exit) continue;
    if (command->offer >= 0) {
      command->pid = -1;  // nobody's any more
      if (!settle(*command)) return false;
      command->pid = pid;
    }
    if (command->status >= 0) on_status(*command);  // its last word comes before its end
    if (command->failure) return false;
    command->running = true;
    ended(*command, status, micros(usage.ru_utime) + micros(usage.ru_stime),
          static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
    return true;
  }
  return false;
}

void Commands::ended(Command& command, int status, std::uint64_t cpu_us, std::uint64_t peak_bytes) {
  if (command.shell) return leader_ended(command, status);
  Exited exit;
  exit.id = command.id;
  exit.wall_us = now_us() - command.began_us;
  exit.cpu_us = cpu_us;
  exit.peak_bytes = peak_bytes;
  command.exit = exit;
  command.ends.command_ended();
  judge(command, status);
}

// From the wait status and the counters to a cause and the limits that were met.
void Commands::judge(Command& command, int status) {
  Exited& exit = *command.exit;
  last_counts_ = counters_.read();
  exit.limits_hit = counters_.hits(command.counts, last_counts_);
  if (WIFSIGNALED(status)) {
    exit.signal = WTERMSIG(status);
    exit.cause = Cause::signal;
  } else {
    exit.code = WEXITSTATUS(status);
  }
  const bool was_killed = exit.signal == SIGKILL || exit.code == 128 + SIGKILL;
  if (command.ended_by != Cause::exited) {
    exit.cause = command.ended_by;
  } else if (was_killed && counters_.oom_kills(command.counts, last_counts_) > 0) {
    exit.cause = Cause::oom;
  }
  const bool failed = exit.code != 0 || exit.signal != 0;
  if (failed && config_.disk_check && disk_is_full()) exit.limits_hit |= kHitDisk;
}

}  // namespace tb::guest
