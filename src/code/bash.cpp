// SPDX-License-Identifier: Apache-2.0
// Calls of bash: its shell keeps what they change (sandbox::Shell), each call is a process in it.
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "base/error.h"
#include "code/contexts.h"

namespace tb::code {
namespace {

using sandbox::Stream;

constexpr std::size_t kPiece = 64 << 10;
constexpr Milliseconds kSilence = 15s;

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
  return out + "'";
}

// Variables of one call, and how they are as before again.
std::string setting(const Variables& variables) {
  std::string script;
  for (const auto& [name, value] : variables) {
    script += "unset _threadbox_" + name + "; [ -n \"${" + name + "+x}\" ] && _threadbox_" + name +
              "=\"$" + name + "\"; export " + name + "=" + quoted(value) + "\n";
  }
  return script + "true";
}

std::string unsetting(const Variables& variables) {
  std::string script;
  for (const auto& [name, value] : variables) {
    script += "unset " + name + "; [ -n \"${_threadbox_" + name + "+x}\" ] && export " + name +
              "=\"$_threadbox_" + name + "\"; unset _threadbox_" + name + "\n";
  }
  return script + "true";
}

// The head of a stream as it comes, its tail at the end.
class Follower {
 public:
  Follower(Stream stream, Bytes limit)
      : stream_(stream), head_(limit.count / 2), tail_(limit.count - limit.count / 2) {}

  // Empty: nothing new that is shown now.
  std::string next(const sandbox::Process& process) {
    if (offset_ >= head_) return {};
    const std::size_t most = std::min<std::uint64_t>(kPiece, head_ - offset_);
    const std::string bytes = process.read_output(stream_, offset_, most);
    offset_ += bytes.size();
    return characters_.add(bytes);
  }

  std::string rest(const sandbox::Process& process) {
    const std::uint64_t total = process.output_size(stream_);
    std::string text;
    const std::uint64_t from = total > tail_ ? total - tail_ : 0;
    if (from > offset_) {
      text = "\n[... " + std::to_string(from - offset_) + " bytes left out ...]\n";
      offset_ = from;
    }
    while (offset_ < total) {
      const std::string bytes = process.read_output(stream_, offset_, kPiece);
      if (bytes.empty()) break;
      offset_ += bytes.size();
      text += characters_.add(bytes);
    }
    return text + characters_.rest();
  }

 private:
  Stream stream_;
  std::uint64_t head_, tail_;
  std::uint64_t offset_ = 0;
  WholeCharacters characters_;
};

Event text_event(Stream stream, std::string text) {
  Event event;
  event.kind = stream == Stream::out ? Event::Kind::out : Event::Kind::err;
  event.text = std::move(text);
  return event;
}

awaitable<bool> output_or_exit(std::shared_ptr<sandbox::Process> process, std::uint64_t seen,
                               Nudge* wake) {
  using namespace asio::experimental::awaitable_operators;
  if (wake) {
    co_await (process->wait_output(Stream::all, seen) || process->wait() || wake->wait());
  } else {
    co_await (process->wait_output(Stream::all, seen) || process->wait());
  }
  co_return true;
}

// Tells what it prints until its end.
awaitable<void> follow(std::shared_ptr<sandbox::Process> process, Bytes limit, Take& take,
                       Nudge* wake) {
  Follower followers[] = {{Stream::out, limit}, {Stream::err, limit}};
  for (;;) {
    const bool over = process->exit().has_value();
    const std::uint64_t seen = process->output_size(Stream::all);
    for (Follower& follower : followers) {
      const Stream stream = &follower == followers ? Stream::out : Stream::err;
      for (std::string text = follower.next(*process); !text.empty();
           text = follower.next(*process)) {
        Event event = text_event(stream, std::move(text));
        co_await take(event);
      }
      std::string rest = over ? follower.rest(*process) : std::string{};
      if (rest.empty()) continue;
      Event event = text_event(stream, std::move(rest));
      co_await take(event);
    }
    if (over) co_return;
    const auto woken = co_await within(kSilence, output_or_exit(process, seen, wake));
    Event silence;
    if (!woken || (wake && wake->take())) co_await take(silence);
  }
}

void describe_end(Outcome& outcome, const sandbox::Exit& exit, const shell::Facts& facts,
                  Milliseconds timeout) {
  outcome.exit_code = exit.code;
  outcome.timed_out = exit.cause == sandbox::Cause::timeout;
  outcome.state_lost = facts.respawned && !facts.restored;
  if (outcome.timed_out) {
    outcome.error = Failure{"TimeoutError",
                            "timed out after " + in_seconds(timeout) + "; the shell is as it was" +
                                (facts.respawned ? " after the call before" : ""),
                            ""};
  } else if (exit.code != 0) {
    outcome.error = Failure{"ExitError", "exit status " + std::to_string(exit.code), ""};
  }
}

}  // namespace

awaitable<shell::Run> Contexts::begin_bash(SessionRef session, ContextRef context,
                                           sandbox::Command command, session::Who who) {
  shell::Runs::Start begin = [this, session, who](sandbox::Command what) {
    return sessions_.start(session, std::move(what), who);
  };
  co_return co_await runs_.start(context->shell, std::move(command), std::move(begin));
}

awaitable<void> Contexts::run_quietly(SessionRef session, ContextRef context, std::string script,
                                      session::Who who) {
  sandbox::Command command;
  command.script = std::move(script);
  command.timeout = 10s;
  const shell::Run run = co_await begin_bash(session, context, std::move(command), who);
  co_await run.process()->wait();
}

awaitable<Outcome> Contexts::run_bash(SessionRef session, ContextRef context, Cell cell, Take take,
                                      session::Who who, Nudge* wake) {
  Outcome outcome;
  if (!context->shell || context->shell->closed()) {
    outcome.restarted = context->used;
    co_await start(session, context, who);
  }
  if (!cell.env.empty()) co_await run_quietly(session, context, setting(cell.env), who);
  sandbox::Command command;
  const bool blank = cell.text.find_first_not_of(" \t\r\n") == std::string::npos;
  command.script = blank ? "true" : std::move(cell.text);
  command.timeout = cell.timeout;
  std::optional<shell::Run> run;
  run.emplace(co_await begin_bash(session, context, std::move(command), who));
  const auto process = run->process();
  const auto stopper = std::make_shared<Stopper>(executor_, process);
  context->stopper = stopper;
  Event begun;
  begun.kind = Event::Kind::begun;
  begun.count = ++context->count;
  std::exception_ptr failure;
  try {
    co_await take(begun);
    co_await follow(process, limits_.output, take, wake);
  } catch (...) {
    failure = std::current_exception();
    stopper->stop();
  }
  const sandbox::Exit exit = co_await process->wait();
  stopper->over();
  context->stopper.reset();
  describe_end(outcome, exit, run->facts(), cell.timeout);
  run.reset();  // it is the next one's turn
  outcome.interrupted = stopper->interrupted();
  outcome.count = context->count;
  if (!cell.env.empty() && !outcome.state_lost) {
    co_await run_quietly(session, context, unsetting(cell.env), who);
  }
  if (failure) std::rethrow_exception(failure);
  co_return outcome;
}

}  // namespace tb::code
