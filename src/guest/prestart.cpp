// SPDX-License-Identifier: Apache-2.0
// Shells that are there ahead: after a command's end a bash waits for the text of the next one
// (guest/waiter/), started as that would be, or a copy of one that was (copies.cpp). A command that
// it is no good for, that it does not take in time or can't take is started as if there were none;
// what was taken is never started again.
#include "guest/prestart.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "guest/commands.h"
#include "guest/look.h"
#include "guest/waiter/wire.h"
#include "os/fdpass.h"

namespace tb::guest {

Processors::Processors()
    : load_(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC)), count_(::get_nprocs()) {}

bool Processors::busy() const {
  char text[64];
  const ssize_t n = load_ < 0 ? 0 : ::pread(load_, text, sizeof text, 0);
  // 0.20 0.18 0.12 1/80 11206: the fourth is who runs or would like to, of all.
  const std::string_view line{text, static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
  const std::size_t slash = line.find('/');
  if (slash == line.npos) return false;
  const std::size_t begin = line.rfind(' ', slash) + 1;
  int running = 0;
  std::from_chars(line.data() + begin, line.data() + slash, running);
  // A client, the server and we are awake for each command: that alone is not much.
  return running > 2 * count_;
}

namespace {

constexpr std::size_t kMaxText = 120 << 10;        // as an argument of its own
constexpr std::size_t kMaxEnvironment = 64 << 10;  // far below what exec(2) takes
constexpr std::uint64_t kPatience = 2000 * 1000;   // for one that is not stopped, only slow
constexpr std::uint64_t kLook = 50 * 1000;         // at one that might be
constexpr std::uint64_t kBusyPause =
    50 * 1000;  // before a start that others would have to wait for
constexpr unsigned kMostUnused = 2;
constexpr unsigned kMostUnloadable = 2;

// What bash or the loader read while they start and our own text in between would change, or what
// may mean something else a minute later.
constexpr std::string_view kOwnWays[] = {"BASH",   "SHELLOPTS", "POSIXLY_CORRECT", "LD_",
                                         "GLIBC_", "MALLOC",    "LOCPATH",         "NLSPATH",
                                         "PS4=",   "_=",        "SECONDS"};

bool usual_environment(const std::vector<std::string>& env) {
  std::size_t size = 0;
  bool path = false;
  for (const std::string& entry : env) {
    size += entry.size() + 1 + sizeof(char*);
    path = path || entry.starts_with("PATH=");
    for (const std::string_view name : kOwnWays) {
      if (entry.starts_with(name)) return false;
    }
  }
  return path && size < kMaxEnvironment;
}

bool could_be_handed_over(const Start& start) {
  return start.ahead_ms > 0 && start.kind == Kind::command && !start.terminal &&
         !start.script.empty() && start.script.size() <= kMaxText;
}

bool offer(int socket, const Start& start, const int (&streams)[waiter::kStreams]) {
  const waiter::Head head{waiter::Kind::offer, static_cast<std::uint32_t>(start.cwd.size())};
  std::string message(reinterpret_cast<const char*>(&head), sizeof head);
  message.reserve(sizeof head + start.cwd.size() + 1 + start.script.size());
  message += start.cwd;
  message += '\0';
  message += start.script;
  return os::send_packet(socket, message, streams, waiter::kStreams) == 1;
}

enum class Heard { nothing, waits, takes, gone };

bool is_child(int pid) {
  siginfo_t info{};
  return pid > 1 &&
         ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// A shell that we did not start ourselves says who it is.
Heard listen(Command& shell, int reaped) {
  waiter::Word said{};
  const ssize_t n = ::recv(shell.offer, &said, sizeof said, MSG_DONTWAIT);
  if (n < 0 && errno == EAGAIN) return Heard::nothing;
  if (n != sizeof said) return Heard::gone;
  if (shell.copied && shell.pid < 0 && (said.pid == reaped || is_child(said.pid))) {
    shell.pid = said.pid;
  }
  if (said.word == waiter::kWaits) shell.waited = true;
  return said.word == waiter::kWaits   ? Heard::waits
         : said.word == waiter::kTakes ? Heard::takes
                                       : Heard::gone;
}

}  // namespace

void Commands::hear(Command& shell) {
  if (!shell.waited) listen(shell, reaped_);
}

void Commands::ask_for_shell(const Start& start) {
  if (start.ahead_ms == 0 || unloadable_ >= kMostUnloadable) {
    next_.reset();
  } else if (could_be_handed_over(start)) {
    const bool same = next_ && is_like(*next_, start);
    if (!same) next_.reset();
    if (!same && usual_environment(start.env)) {
      next_ = std::make_unique<Start>();
      next_->cwd = start.cwd;
      next_->env = start.env;
    }
    if (next_) next_->ahead_ms = start.ahead_ms;
  }
}

void Commands::expect(Expect expect) {
  Start like;
  like.cwd = std::move(expect.cwd);
  like.env = std::move(expect.env);
  like.script = "true";
  like.ahead_ms = expect.ahead_ms;
  ask_for_shell(like);
  if (!next_) {
    if (waiting_) drop_waiting();
    drop_original();
  }
  wish_refill();
}

// The shell gets its text; what it says then decides.
bool Commands::hand_over(Command& command, const Start& start) {
  if (!could_be_handed_over(start)) return false;
  if (!waiting_ && original_ && is_like(original_->like, start)) make_copy(start.ahead_ms, false);
  if (!waiting_) return false;
  if (!is_like(*waiting_->again, start)) {
    if (++unused_ >= kMostUnused) drop_waiting();
    return false;
  }
  // Before the offer: one that dies with that unread leaves an error, and its words can't be heard.
  hear(*waiting_);
  if (!offer(waiting_->offer, start, command.ends.child)) {
    if (!waiting_->waited) never_waited(waiting_->copied);
    drop_waiting();
    return false;
  }
  command.waited = waiting_->waited;
  command.copied = waiting_->copied;
  command.began_us = now_us();
  command.look_us = command.began_us + kShort;
  command.offer = std::exchange(waiting_->offer, -1);
  command.pid = waiting_->pid;
  command.cgroup = waiting_->cgroup;
  command.minder = std::exchange(waiting_->minder, Minder{});
  waiting_.reset();
  unused_ = 0;
  return true;
}

void Commands::taken(Command& command) {
  close_fd(command.offer);
  command.again.reset();
  command.ends.close_child();
  unloadable_ = uncopied_ = 0;
  if (command.pid <= 0 && command.minder.reports >= 0) return on_minder(command);
  command.running = true;
  if (command.copied && command.pid < 0) {  // it would never end
    cgroups_.kill(command.cgroup);
    return ended(command, SIGKILL, 0, 0);
  }
  // One that came too late for that is in its cgroup only now.
  if (command.ended_by != Cause::exited) end(command, command.ended_by);
}

// It never will be: so it can be started elsewhere.
void Commands::not_taken(Command& command) {
  close_fd(command.offer);
  if (command.copied) drop_original();  // whatever was wrong may be wrong with it
  if (command.copied && command.pid < 0) cgroups_.kill(command.cgroup);
  if (command.pid > 0) ::kill(command.pid, SIGKILL);
  if (command.minder.pid > 0) {
    signal_below(command.minder.pid, SIGKILL);
    old_minders_.push_back(command.minder.pid);
  }
  close_fd(command.minder.reports);
  command.minder = Minder{};
  command.pid = -1;
  cgroups_.give(command.cgroup);
  command.cgroup = -1;
  const std::unique_ptr<Start> start = std::move(command.again);
  if (command.ended_by != Cause::exited) {  // meanwhile
    command.ends.close_child();
    command.running = true;
    return ended(command, SIGKILL, 0, 0);
  }
  if (const char* step = begin(command, *start)) fail(command, step);
}

// Whether the shell has taken the command. Afterwards either that is not known yet, or what follows
// from it is done.
bool Commands::settle(Command& command) {
  for (;;) {
    const Heard heard = listen(command, reaped_);
    if (heard == Heard::nothing) return false;
    if (heard == Heard::takes) {
      taken(command);
      return true;
    }
    if (heard == Heard::gone) {
      if (!command.waited) never_waited(command.copied);
      not_taken(command);
      return false;
    }
  }
}

// Who was ended by somebody says nothing about the next one.
void Commands::never_waited(bool copied) {
  if (copied) {
    if (original_lives()) ++uncopied_;
  } else if (++unloadable_ >= kMostUnloadable) {
    next_.reset();
  }
}

// Most commands that a shell has waited for are short. Looking for its word only later, or when it
// has ended, spares them a wake-up of ours and one of the server's.
std::uint64_t Commands::tend_offer(Command& command, std::uint64_t now) {
  if (now < command.look_us) return command.look_us;
  settle(command);
  if (command.offer < 0) return 0;
  const int shell = command.pid < 0 && original_ ? original_->pid : command.pid;
  // Who was stopped takes nothing.
  if (!look_at(shell).stopped() && now < command.began_us + kPatience) {
    if (command.look_us == command.began_us + kShort) watch(command.offer);
    command.look_us = now + kLook;
    return command.look_us;
  }
  // From here on it can't say that it takes it. If it just has, it does.
  command.waited = true;  // or would have
  ::shutdown(command.offer, SHUT_RDWR);
  settle(command);
  return 0;
}

Launched Commands::launch_waiter(int socket, const Place& place) {
  Start start = *next_;
  start.argv = {"bash", "-c", std::string(waiter::kBlanks, ' ')};
  start.env.push_back(waiter::kBashEnv);
  Launch launch;
  launch.start = &start;
  launch.config = &config_;
  launch.input = 0;  // /dev/null, as PID 1 has it
  launch.output = 1;
  launch.error = 2;
  launch.passed = {kWaiterFd, kOpeningFd, socket};
  launch.cgroup = place.cgroup;
  launch.program = place.original;
  launch.filtered = !place.original;
  if (!place.minder) {
    Launched launched = guest::launch(launch);
    close_fd(launched.status);  // what it says on its socket, or its end, tells
    return launched;
  }
  Launched none;
  *place.minder = launch_minded(launch, none.failed);
  if (place.minder->reports >= 0) watch(place.minder->reports);
  return none;
}

void Commands::start_ahead() {
  auto shell = std::make_unique<Command>();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  shell->offer = ends[0];
  if (!cgroups_.there()) {
    launch_waiter(ends[1], {.minder = &shell->minder});
  } else if ((shell->cgroup = cgroups_.take()) >= 0) {
    shell->pid = launch_waiter(ends[1], {.cgroup = cgroups_.dir_fd(shell->cgroup)}).pid;
  }
  ::close(ends[1]);
  if (shell->pid < 0 && shell->minder.pid < 0) {
    cgroups_.give(shell->cgroup);
    next_.reset();
    last_counts_ = counters_.read();  // a limit that we met here is not the next command's
    return;
  }
  wait_with(std::move(shell), *next_);
}

void Commands::wait_with(std::unique_ptr<Command> shell, const Start& like) {
  shell->began_us = now_us();
  shell->again = std::make_unique<Start>(like);
  waiting_ = std::move(shell);
  unused_ = 0;
}

// A start is better made when nothing runs: then it can be that of one to be copied.
void Commands::wish_refill() {
  if (!next_) return;
  const bool cheap = original_ && is_like(original_->like, *next_);
  const bool now = (cheap || idle()) && !processors_.busy();
  refill_us_ = now_us() + (now ? 0 : kBusyPause);
}

void Commands::refill() {
  if (refill_us_ == 0 || refill_us_ > now_us() || any_dying()) return;
  refill_us_ = 0;
  if (waiting_) {
    waiting_->began_us = now_us();
    if (next_) waiting_->again->ahead_ms = next_->ahead_ms;
    if (original_) original_->until_us = now_us() + waiting_->again->ahead_ms * 1000ull;
  } else if (next_) {
    refill_with_copy();
    if (!waiting_) start_ahead();
  }
}

void Commands::hear_of_waiting() {
  MinderReport report;
  const int result = read_report(waiting_->minder.reports, report);
  if (result == 0) return;
  if (result > 0 && !report.ended && !report.failed.text) {
    waiting_->pid = report.pid;
  } else {
    close_fd(waiting_->minder.reports);  // its minder ends, too
  }
}

void Commands::drop_waiting() {
  if (waiting_->pid > 0 && cgroups_.there()) ::kill(waiting_->pid, SIGKILL);
  if (waiting_->copied && waiting_->pid < 0) cgroups_.kill(waiting_->cgroup);
  if (waiting_->minder.pid > 0) {
    signal_below(waiting_->minder.pid, SIGKILL);
    old_minders_.push_back(waiting_->minder.pid);
  }
  cgroups_.give(waiting_->cgroup);
  waiting_.reset();
}

void Commands::waiting_ended() {
  hear(*waiting_);
  if (!waiting_->waited) never_waited(waiting_->copied);
  waiting_->pid = -1;
  drop_waiting();
}

// Returns when it has waited for long enough.
std::uint64_t Commands::tend_waiting(std::uint64_t now) {
  const std::uint64_t until = waiting_->began_us + waiting_->again->ahead_ms * 1000ull;
  if (now < until) return until;
  drop_waiting();
  drop_original();
  return 0;
}

}  // namespace tb::guest
