// SPDX-License-Identifier: Apache-2.0
// Shells that are started ahead: after a command's end a bash is started as the next one would be,
// and waits for its text (guest/waiter/). A command that it is no good for, that it does not take
// in time or can't take is started as if there were none; what was taken is never started again.
#include "guest/prestart.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <utility>

#include "guest/commands.h"
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
constexpr std::uint64_t kFirstLook = 1000;         // microseconds
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
  const waiter::Offer head{static_cast<std::uint32_t>(start.cwd.size())};
  std::string message(reinterpret_cast<const char*>(&head), sizeof head);
  message.reserve(sizeof head + start.cwd.size() + 1 + start.script.size());
  message += start.cwd;
  message += '\0';
  message += start.script;
  return os::send_packet(socket, message, streams, waiter::kStreams) == 1;
}

// Who was stopped takes nothing. pid (name) state …; here the name is bash's.
bool is_stopped(int pid) {
  if (pid <= 0) return false;
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char text[128];
  const ssize_t n = file < 0 ? 0 : ::read(file, text, sizeof text);
  ::close(file);
  const std::string_view stat{text, static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
  const std::size_t name = stat.find(") ");
  return name != stat.npos && name + 2 < stat.size() &&
         (stat[name + 2] == 'T' || stat[name + 2] == 't');
}

enum class Word { none, waits, takes, gone };

Word listen(int socket) {
  char word = 0;
  const ssize_t n = ::recv(socket, &word, 1, MSG_DONTWAIT);
  if (n < 0 && errno == EAGAIN) return Word::none;
  if (n == 1 && word == waiter::kWaits) return Word::waits;
  return n == 1 && word == waiter::kTakes ? Word::takes : Word::gone;
}

}  // namespace

void Commands::ask_for_shell(const Start& start) {
  if (start.ahead_ms == 0 || unloadable_ >= kMostUnloadable) {
    next_.reset();
  } else if (could_be_handed_over(start)) {
    const bool same = next_ && next_->cwd == start.cwd && next_->env == start.env;
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
  if (!next_ && waiting_) drop_waiting();
  wish_refill();
}

// The shell gets its text; what it says then decides.
bool Commands::hand_over(Command& command, const Start& start) {
  if (!waiting_ || !could_be_handed_over(start)) return false;
  const bool same = waiting_->again->cwd == start.cwd && waiting_->again->env == start.env;
  if (!same) {
    if (++unused_ >= kMostUnused) drop_waiting();
    return false;
  }
  // Before the offer: one that dies with that unread leaves an error, and its words can't be heard.
  command.waited = listen(waiting_->offer) == Word::waits;
  if (!offer(waiting_->offer, start, command.ends.child)) {
    drop_waiting();
    return false;
  }
  command.began_us = now_us();
  command.look_us = command.began_us + kFirstLook;
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
  unloadable_ = 0;
  if (command.pid <= 0 && command.minder.reports >= 0) return on_minder(command);
  command.running = true;
}

// It never will be: so it can be started elsewhere.
void Commands::not_taken(Command& command) {
  close_fd(command.offer);
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
    const Word word = listen(command.offer);
    if (word == Word::waits) {
      command.waited = true;
    } else if (word == Word::takes) {
      taken(command);
      return true;
    } else if (word == Word::gone) {
      if (!command.waited && ++unloadable_ >= kMostUnloadable) next_.reset();
      not_taken(command);
      return false;
    } else {
      return false;
    }
  }
}

// Most commands that a shell has waited for are short. Looking for its word only later, or when it
// has ended, spares them a wake-up of ours and one of the server's.
std::uint64_t Commands::tend_offer(Command& command, std::uint64_t now) {
  if (now < command.look_us) return command.look_us;
  settle(command);
  if (command.offer < 0) return 0;
  if (!is_stopped(command.pid) && now < command.began_us + kPatience) {
    if (command.look_us == command.began_us + kFirstLook) watch(command.offer);
    command.look_us = now + kLook;
    return command.look_us;
  }
  // From here on it can't say that it takes it. If it just has, it does.
  ::shutdown(command.offer, SHUT_RDWR);
  settle(command);
  return 0;
}

void Commands::start_ahead() {
  auto shell = std::make_unique<Command>();
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  shell->offer = ends[0];
  int theirs = ends[1];
  if (!cgroups_.there() || (shell->cgroup = cgroups_.take()) >= 0) {
    Start start = *next_;
    start.argv = {"bash", "-c", std::string(waiter::kBlanks, ' ')};
    start.env.push_back(waiter::kBashEnv);
    Launch launch;
    launch.start = &start;
    launch.config = &config_;
    launch.input = 0;  // /dev/null, as PID 1 has it
    launch.output = 1;
    launch.error = 2;
    launch.passed = {kWaiterFd, kOpeningFd, theirs};
    launch.cgroup = shell->cgroup >= 0 ? cgroups_.dir_fd(shell->cgroup) : -1;
    if (cgroups_.there()) {
      const Launched launched = guest::launch(launch);
      shell->pid = launched.pid;
      shell->status = launched.status;
      close_fd(shell->status);  // what it says on its socket, or its end, tells
    } else {
      Step failed;
      shell->minder = launch_minded(launch, failed);
      if (shell->minder.reports >= 0) watch(shell->minder.reports);
    }
  }
  close_fd(theirs);
  if (shell->pid < 0 && shell->minder.pid < 0) {
    cgroups_.give(shell->cgroup);
    next_.reset();
    last_counts_ = counters_.read();  // a limit that we met here is not the next command's
    return;
  }
  shell->began_us = now_us();
  shell->again = std::make_unique<Start>(*next_);
  waiting_ = std::move(shell);
  unused_ = 0;
}

void Commands::wish_refill() {
  if (next_) refill_us_ = now_us() + (processors_.busy() ? kBusyPause : 0);
}

void Commands::refill() {
  if (refill_us_ == 0 || refill_us_ > now_us()) return;
  refill_us_ = 0;
  if (waiting_) {
    waiting_->began_us = now_us();
    if (next_) waiting_->again->ahead_ms = next_->ahead_ms;
  } else if (next_) {
    start_ahead();
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
  if (waiting_->minder.pid > 0) {
    signal_below(waiting_->minder.pid, SIGKILL);
    old_minders_.push_back(waiting_->minder.pid);
  }
  cgroups_.give(waiting_->cgroup);
  waiting_.reset();
}

void Commands::waiting_ended() {
  if (listen(waiting_->offer) != Word::waits && ++unloadable_ >= kMostUnloadable) next_.reset();
  waiting_->pid = -1;
  drop_waiting();
}

// Returns when it has waited for long enough.
std::uint64_t Commands::tend_waiting(std::uint64_t now) {
  const std::uint64_t until = waiting_->began_us + waiting_->again->ahead_ms * 1000ull;
  if (now < until) return until;
  drop_waiting();
  return 0;
}

}  // namespace tb::guest
