// SPDX-License-Identifier: Apache-2.0
#include "e2b/process.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <csignal>

#include "base/log.h"
#include "e2b/ends.h"
#include "e2b/helper.h"

namespace tb::e2b {
namespace {

constexpr auto kReconnectFor = 60s;  // then what runs counts as lost
constexpr auto kEndAfterKill = 10s;  // for E2B to tell of it
constexpr auto kHangUp = 2s;
constexpr std::size_t kAnswerSize = 2;

// All that carry the variable $1 get the signal $2, until none is left of those that must die.
constexpr const char* kSignalTree = R"(
for i in 1 2 3 4 5 6 7 8 9 10; do
  found=
  for file in $(grep -lzxFs -- "$1" /proc/[0-9]*/environ); do
    pid=${file#/proc/}; pid=${pid%/environ}; found+=" $pid"
  done
  [ -z "$found" ] && exit 0
  kill -s "$2" $found 2>/dev/null
  [ "$2" = 9 ] || exit 0
  sleep 0.05
done
)";

constexpr const char* kGap =
    "\n[threadbox: the connection to the sandbox was lost here; what was printed meanwhile is "
    "missing]\n";

}  // namespace

E2bProcess::E2bProcess(Parts parts, std::uint32_t id, std::string run, sandbox::ProcessInfo info)
    : parts_(std::move(parts)),
      id_(id),
      run_(std::move(run)),
      info_(std::move(info)),
      output_(parts_.path, parts_.limits),
      changed_(parts_.executor),
      deadline_(parts_.executor) {}

awaitable<void> E2bProcess::begin(std::unique_ptr<Events> events, bool asks) {
  events_ = std::move(events);
  asks_ = asks;
  output_.open();
  while (info_.pid == 0 || asks_) {
    const auto message = co_await events_->next();
    if (!message || take(*message)) break;
  }
  if (asks_ || info_.pid == 0 || asked_ == "no") {
    exit_ = sandbox::Exit{};
    throw Error{Code::invalid,
                "the program can't be executed: there is none of that name in the "
                "sandbox, or it is not executable"};
  }
}

void E2bProcess::resume(std::optional<Milliseconds> timeout_left) {
  output_.open();
  set_timeout(timeout_left);
}

void E2bProcess::set_timeout(std::optional<Milliseconds> timeout) {
  if (!timeout) return;
  deadline_at_ = std::chrono::system_clock::now() + *timeout;
  deadline_.expires_after(std::max(*timeout, Milliseconds{0}));
  deadline_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
    const auto self = weak.lock();
    if (!error && self) self->end_by(sandbox::Cause::timeout);
  });
}

// True: that was its end.
bool E2bProcess::take(const json::object& message) {
  const json::object* event = object_of(message, "event");
  if (!event) return false;
  if (const json::object* start = object_of(*event, "start")) {
    info_.pid = static_cast<int>(number_of(*start, "pid"));
    listened_to_ = true;
    changed_.notify_all();
    if (on_change_) on_change_();
  }
  if (const json::object* data = object_of(*event, "data")) take_data(*data);
  const json::object* end = object_of(*event, "end");
  if (end) told_end(*end);
  return end != nullptr;
}

void E2bProcess::take_data(const json::object& data) {
  std::string out = bytes_of(data, info_.terminal ? "pty" : "stdout");
  if (asks_) {
    const std::size_t more = std::min(kAnswerSize - asked_.size(), out.size());
    asked_ += out.substr(0, more);
    out.erase(0, more);
    asks_ = asked_.size() < kAnswerSize;
  }
  output_.append(Stream::out, out);
  output_.append(Stream::err, bytes_of(data, "stderr"));
  changed_.notify_all();
}

sandbox::Exit E2bProcess::forced_exit() const {
  sandbox::Exit exit;
  exit.cause = ending_.value_or(sandbox::Cause::lost);
  exit.code = exit.cause == sandbox::Cause::timeout ? 124 : 128 + SIGKILL;
  exit.signal = exit.cause == sandbox::Cause::timeout ? 0 : SIGKILL;
  return exit;
}

void E2bProcess::told_end(const json::object& end) {
  if (exit_) return;
  sandbox::Exit exit = to_exit(end);
  // One that had ended by itself before it could be killed has ended by itself.
  if (ending_ && exit.cause != sandbox::Cause::exited) exit = forced_exit();
  if (ending_ == sandbox::Cause::timeout) exit = forced_exit();
  set_exit(std::move(exit));
}

void E2bProcess::set_exit(sandbox::Exit exit) {
  if (exit_) return;
  output_.end();
  exit.wall = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::system_clock::now() - info_.started);
  exit_ = std::move(exit);
  deadline_.cancel();
  input_open_ = false;
  if (on_change_) on_change_();
  if (const auto told = std::exchange(on_exit_, nullptr)) told(*exit_);
  changed_.notify_all();
  // After those who waited have had their turn.
  asio::post(parts_.executor, [self = shared_from_this()] { self->output_.close_files(); });
}

void E2bProcess::restore(sandbox::Exit exit) { exit_ = std::move(exit); }

void E2bProcess::lost() {
  if (!exit_) set_exit(forced_exit());
}

awaitable<void> E2bProcess::follow() {
  const auto self = shared_from_this();
  bool connected = events_ != nullptr;
  while (!exit_) {
    std::string why;  // empty: it is one of an earlier server
    bool over = false;
    try {
      while (connected && !exit_) {
        const auto message = co_await events_->next();
        if (message && !take(*message)) continue;
        if (exit_) break;
        why = "the stream ended before the process";
        connected = false;
      }
    } catch (const CallError& error) {
      over = error.name() == "not_found";  // and nobody can say how it ended
      why = error.what();
    } catch (const Error& error) {
      why = error.what();
    }
    if (exit_ && connected) co_await hang_up();
    events_.reset();
    listened_to_ = false;
    if (exit_) co_return;
    if (!why.empty()) {
      log(LogLevel::warning, "e2b_stream_lost", {{"process", std::to_string(id_)}, {"why", why}});
    }
    connected = !over && co_await reconnect();
    if (!connected) co_return lost();
  }
}

// Reads to the very end, so that the connection can be used again.
awaitable<void> E2bProcess::hang_up() {
  try {
    auto last = events_->next();
    co_await within(kHangUp, std::move(last));
  } catch (const Error&) {
    co_return;  // then it can't
  }
}

// False: the sandbox is gone, or does not answer for too long.
awaitable<bool> E2bProcess::reconnect() {
  const auto until = std::chrono::steady_clock::now() + kReconnectFor;
  Milliseconds pause{100};
  while (std::chrono::steady_clock::now() < until && !exit_) {
    bool gone = false;
    try {
      const bool healthy = co_await parts_.envd->healthy();
      if (healthy) {
        json::object request{{"process", selector()}};
        events_ = co_await parts_.envd->open("process.Process/Connect", std::move(request));
        note_gap();
        co_return true;
      }
    } catch (const Gone&) {
      gone = true;
    } catch (const CallError& error) {
      gone = error.name() == "not_found";
    } catch (const Error&) {
      gone = false;  // it may be back in a moment
    }
    if (gone) co_return false;
    asio::steady_timer timer{parts_.executor, pause};
    co_await timer.async_wait(asio::use_awaitable);
    pause = std::min<Milliseconds>(pause * 2, 2s);
  }
  co_return false;
}

// E2B sends what is printed only to those who listen, and does not count it. In stderr, where it
// is no program's data; not in a terminal, where it would be on the screen of one.
void E2bProcess::note_gap() {
  if (!info_.terminal) output_.append(Stream::err, kGap);
  changed_.notify_all();
}

void E2bProcess::on_exit(std::function<void(const sandbox::Exit&)> callback) {
  if (!exit_) on_exit_ = std::move(callback);
}

awaitable<sandbox::Exit> E2bProcess::wait() {
  const auto self = shared_from_this();
  while (!exit_) co_await changed_.wait();
  co_return *exit_;
}

awaitable<void> E2bProcess::wait_output(Stream stream, std::uint64_t offset) {
  const auto self = shared_from_this();
  while (output_size(stream) <= offset && !output_ended(stream)) co_await changed_.wait();
}

void E2bProcess::end_by(sandbox::Cause cause) {
  if (exit_ || ending_) return;
  ending_ = cause;
  parts_.spawn("end process " + std::to_string(id_),
               [self = shared_from_this()] { return self->end_tree(); });
}

awaitable<void> E2bProcess::end_tree() {
  Helper helper;
  helper.script = kSignalTree;
  helper.parameters = {std::string{kRunVariable} + "=" + run_, "9"};
  try {
    json::object request{{"process", selector()}, {"signal", "SIGNAL_SIGKILL"}};
    co_await parts_.envd->call("process.Process/SendSignal", std::move(request));
  } catch (const Error& error) {
    log(LogLevel::warning, "e2b_kill_failed", {{"error", error.what()}});
  }
  try {
    co_await run_helper(*parts_.envd, std::move(helper));
  } catch (const Error& error) {
    log(LogLevel::warning, "e2b_kill_failed", {{"error", error.what()}});
  }
  auto ended = [this] { return exit_.has_value(); };
  co_await changed_.until(ended, kEndAfterKill);
  lost();
}

void E2bProcess::signal(int number, bool tree) {
  if (number < 1 || number > SIGRTMAX) throw Error{Code::invalid, "no such signal"};
  if (exit_) return;
  Helper helper;
  helper.script = tree ? kSignalTree : "kill -s \"$2\" \"$1\"";
  helper.parameters = {tree ? std::string{kRunVariable} + "=" + run_ : std::to_string(info_.pid),
                       std::to_string(number)};
  parts_.spawn("signal process " + std::to_string(id_),
               [self = shared_from_this(), helper]() -> awaitable<void> {
                 Helper mine = helper;
                 co_await run_helper(*self->parts_.envd, std::move(mine));
               });
}

}  // namespace tb::e2b
