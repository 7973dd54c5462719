// SPDX-License-Identifier: Apache-2.0
// Calls of contexts whose interpreter has a driver.
#include <boost/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "code/contexts.h"
#include "code/written.h"

namespace tb::code {
namespace json = boost::json;
namespace {

using Kind = Frame::Kind;

constexpr Milliseconds kStart = 60s;     // of an interpreter, on a host that has much to do
constexpr Milliseconds kSilence = 15s;   // then the caller is given a sign of life
constexpr std::size_t kSlack = 1 << 20;  // beyond what a driver was told to keep to

// What an interpreter is told about its context, for the next server to ask.
std::string describe(const ContextSpec& spec) {
  json::array env;
  for (const auto& [name, value] : spec.env) env.push_back(json::array{name, value});
  return json::serialize(json::object{{"id", spec.id}, {"cwd", spec.cwd}, {"env", env}});
}

std::string how_it_ended(const sandbox::Exit& exit) {
  if (exit.cause == sandbox::Cause::oom) return "it ran out of memory";
  if (exit.cause == sandbox::Cause::lost) return "its sandbox ended";
  if (exit.cause == sandbox::Cause::killed) return "it was killed";
  if (exit.signal != 0) return "signal " + std::to_string(exit.signal) + " ended it";
  return "it exited with code " + std::to_string(exit.code);
}

Error no_interpreter(Language language) {
  const std::string program{program_of(language)};
  return {Code::invalid, "There is no " + program + " in this sandbox, which runs " +
                             std::string{name_of(language)} +
                             ": use an environment or an image that has it, or another language"};
}

std::string text_at(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  return value && value->is_string() ? std::string{value->get_string()} : std::string{};
}

unsigned number_at(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  return value && value->is_int64() ? static_cast<unsigned>(value->get_int64()) : 0;
}

json::object parse_message(const std::string& text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) throw Broken{"a message that is no JSON"};
  return std::move(value.get_object());
}

// One call: from frames to events and an outcome.
class Listener {
 public:
  Listener(Take& take, Stopper& stopper, std::uint32_t call, CellLimits limits)
      : take_(take), stopper_(stopper), call_(call), limits_(limits) {}

  Outcome outcome;
  bool ended = false;
  std::exception_ptr failure;  // of who takes the events

  awaitable<void> begin(unsigned count) {
    Event event;
    event.kind = Event::Kind::begun;
    event.count = count;
    co_await tell(event);
  }

  awaitable<void> hear(Frame frame) {
    const bool ours = frame.call == call_ || frame.kind == Kind::stray;
    if (frame.kind == Kind::silence) {
      Event event;
      co_return co_await tell(event);
    }
    if (!ours) co_return;
    switch (frame.kind) {
      case Kind::out: co_return co_await text(Event::Kind::out, frame.data);
      case Kind::err:
      case Kind::stray: co_return co_await text(Event::Kind::err, frame.data);
      case Kind::part: co_return add(frame.data);
      case Kind::result: co_return co_await result(frame.data);
      case Kind::end: co_return co_await end(frame.data);
      default: co_return;
    }
  }

  // Half a character that was left.
  awaitable<void> finish() {
    for (const Event::Kind kind : {Event::Kind::out, Event::Kind::err}) {
      Event event;
      event.kind = kind;
      event.text = characters_[kind == Event::Kind::err].rest();
      if (!event.text.empty()) co_await tell(event);
    }
  }

 private:
  // A driver keeps to its limits; but code can write frames, too.
  void add(const std::string& part) {
    said_ += part.size();
    if (said_ > limits_.results.count + kSlack) throw Broken{"more than it may"};
    message_ += part;
  }

  awaitable<void> text(Event::Kind kind, const std::string& bytes) {
    std::uint64_t& printed = printed_[kind == Event::Kind::err];
    printed += bytes.size();
    if (printed > limits_.output.count + kSlack) co_return;
    Event event;
    event.kind = kind;
    event.text = characters_[kind == Event::Kind::err].add(bytes);
    if (!event.text.empty()) co_await tell(event);
  }

  awaitable<void> result(const std::string& part) {
    add(part);
    Event event;
    event.kind = Event::Kind::result;
    event.result = parse_message(std::exchange(message_, {}));
    co_await tell(event);
  }

  awaitable<void> end(const std::string& part) {
    add(part);
    const json::object told = parse_message(std::exchange(message_, {}));
    outcome.count = number_at(told, "count");
    outcome.results_cut = number_at(told, "cut");
    outcome.files = written_files(told);
    const json::value* error = told.if_contains("error");
    if (error && error->is_object()) {
      const json::object& object = error->get_object();
      outcome.error =
          Failure{text_at(object, "name"), text_at(object, "value"), text_at(object, "traceback")};
    }
    ended = true;
    co_await finish();
  }

  // Who does not take it any more wants no more of it: the code is stopped.
  awaitable<void> tell(Event& event) {
    if (failure) co_return;
    try {
      co_await take_(event);
    } catch (...) {
      failure = std::current_exception();
      stopper_.stop();
    }
  }

  Take& take_;
  Stopper& stopper_;
  const std::uint32_t call_;
  const CellLimits limits_;
  std::uint64_t said_ = 0;
  std::uint64_t printed_[2] = {};
  std::string message_;
  WholeCharacters characters_[2];
};

// The interpreter is gone, or is no use any more.
void note_loss(Outcome& outcome, const Stopper& stopper, const std::string& why) {
  outcome.state_lost = true;
  if (stopper.killed()) return;  // that has words of its own
  outcome.error = Failure{"InterpreterLost",
                          "the interpreter is gone: " + why +
                              "; the next call starts a new one, without what this one knew",
                          ""};
}

void note_stop(Outcome& outcome, const Stopper& stopper, Milliseconds timeout) {
  outcome.timed_out = stopper.timed_out();
  outcome.interrupted = stopper.interrupted();
  if (stopper.killed()) {
    const std::string when =
        stopper.timed_out() ? "timed out after " + in_seconds(timeout) + "; " : std::string{};
    outcome.error = Failure{stopper.timed_out() ? "TimeoutError" : "KeyboardInterrupt",
                            when +
                                "the interpreter had to be killed: the next call starts a new one, "
                                "without what this one knew",
                            ""};
  } else if (stopper.timed_out() && !outcome.state_lost) {
    const std::string trace = outcome.error ? outcome.error->traceback : std::string{};
    if (outcome.error && outcome.error->name != "KeyboardInterrupt") return;
    outcome.error = Failure{"TimeoutError",
                            "timed out after " + in_seconds(timeout) +
                                "; the code was interrupted, what it has set is kept",
                            trace};
  }
}

}  // namespace

// What failed, if anything did.
awaitable<std::string> Contexts::set_up(const session::Session& session, const Context& context,
                                        Channel& channel) {
  std::vector<std::string> fields{"setup", describe(context.spec), context.spec.cwd};
  for (const Variables* variables : {&session.surroundings.variables, &context.spec.env}) {
    for (const auto& [name, value] : *variables) {
      fields.push_back(name);
      fields.push_back(value);
    }
  }
  std::exception_ptr failure;
  try {
    co_await channel.send(std::move(fields));
  } catch (const Error&) {
    failure = std::current_exception();  // it has ended; how is known below
  }
  std::string said;
  const auto deadline = std::chrono::steady_clock::now() + kStart;
  while (std::chrono::steady_clock::now() < deadline) {
    const std::optional<Frame> frame = co_await channel.next(kStart);
    if (!frame) {
      const sandbox::Exit exit = co_await channel.process()->wait();
      if (exit.code == 127 || exit.code == 126) throw no_interpreter(context.spec.language);
      throw Error{Code::unavailable, "The interpreter did not start: " + how_it_ended(exit) +
                                         (said.empty() ? "" : "; " + to_utf8(said))};
    }
    if (frame->kind == Kind::ready) co_return frame->data;
    if (frame->kind == Kind::stray && said.size() < 2000) said += frame->data;
    if (failure && frame->kind == Kind::silence) break;
  }
  channel.process()->kill();
  throw Error{Code::unavailable, "The interpreter did not start within " + in_seconds(kStart)};
}

// Ours from its start on, and nobody else's to adopt.
class Contexts::Starting {
 public:
  explicit Starting(PlaceRef place) : place_(std::move(place)) { ++place_->starting; }
  Starting(const Starting&) = delete;
  Starting& operator=(const Starting&) = delete;
  ~Starting() {
    --place_->starting;
    place_->settled.notify_all();
  }

 private:
  PlaceRef place_;
};

// One that was started ahead has passed no policy yet.
std::shared_ptr<Channel> Contexts::take_spare(Place& place, const SessionRef& session,
                                              const Context& context, const session::Who& who) {
  auto& spares = place.spares[context.spec.language];
  while (!spares.empty()) {
    sessions_.check(session->policy, interpreter(context.spec.language), who);
    const std::shared_ptr<Channel> channel = std::move(spares.back());
    spares.pop_back();
    if (channel->alive()) return channel;
  }
  return nullptr;
}

awaitable<std::shared_ptr<Channel>> Contexts::start_interpreter(SessionRef session,
                                                                const Context& context,
                                                                session::Who who) {
  sandbox::Command command = interpreter(context.spec.language);
  command.env = context.spec.env;
  std::shared_ptr<sandbox::Process> process;
  try {
    process = co_await sessions_.start(session, std::move(command), who);
  } catch (const session::PolicyError&) {
    throw;
  } catch (const Error& error) {
    const std::string_view why = error.what();
    if (why.find("can't be executed") == why.npos) throw;
    throw no_interpreter(context.spec.language);
  }
  co_return std::make_shared<Channel>(process);
}

awaitable<void> Contexts::start(SessionRef session, ContextRef context, session::Who who) {
  if (!context->spec.env.empty()) {
    sandbox::Command like;
    like.script = "true";
    like.env = context->spec.env;
    sessions_.check(session->policy, like, who, session->surroundings.variables);
  }
  if (context->spec.language == Language::bash) {
    sandbox::ShellSpec spec;
    spec.cwd = context->spec.cwd;
    spec.env = context->spec.env;
    spec.tag = tag_of(Language::bash) + " " + context->spec.id;
    context->shell = co_await sessions_.open_shell(session, std::move(spec), who);
    co_return;
  }
  // First the sandbox, if it has ended: what is in it is looked through before we add to it.
  const session::Use use = co_await sessions_.use(session);
  const PlaceRef place = co_await look_through(session);
  const Starting starting{place};
  std::shared_ptr<Channel> channel = take_spare(*place, session, *context, who);
  if (!channel) channel = co_await start_interpreter(session, *context, who);
  const std::string failed = co_await set_up(*session, *context, *channel);
  if (!failed.empty()) {
    channel->process()->kill();
    throw Error{Code::invalid, "cwd: " + to_utf8(failed)};
  }
  context->calls = 0;
  context->channel = std::move(channel);
}

awaitable<Outcome> Contexts::execute(SessionRef session, ContextRef context, Cell cell, Take take,
                                     session::Who who, Nudge* wake) {
  if (!cell.env.empty()) {
    sandbox::Command like;
    like.script = "true";
    like.env = cell.env;
    sessions_.check(session->policy, like, who, session->surroundings.variables);
  }
  const session::Use use = co_await sessions_.use(session);
  const Context::Turn turn = co_await Context::turn(context);
  const auto began = std::chrono::steady_clock::now();
  const bool bash = context->spec.language == Language::bash;
  Outcome outcome;
  if (bash) {
    outcome = co_await run_bash(session, context, std::move(cell), std::move(take), who, wake);
  } else {
    outcome = co_await run(session, context, std::move(cell), std::move(take), who, wake);
  }
  context->used = true;
  outcome.took = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began);
  co_return outcome;
}

awaitable<Outcome> Contexts::run(SessionRef session, ContextRef context, Cell cell, Take take,
                                 session::Who who, Nudge* wake) {
  const bool anew = !context->channel || !context->channel->alive();
  const bool lost = anew && context->used;
  if (anew) co_await start(session, context, who);
  const std::shared_ptr<Channel> held = context->channel;  // whatever becomes of the context
  Channel& channel = *held;
  const auto stopper = std::make_shared<Stopper>(executor_, channel.process());
  Listener listener{take, *stopper, ++context->calls, limits_};
  std::vector<std::string> fields{"exec", std::to_string(context->calls),
                                  std::to_string(limits_.output.count),
                                  std::to_string(limits_.results.count), std::move(cell.text)};
  for (auto& [name, value] : cell.env) {
    fields.push_back(std::move(name));
    fields.push_back(std::move(value));
  }
  context->stopper = stopper;
  stopper->stop_after(cell.timeout);
  co_await listener.begin(context->count + 1);
  std::optional<std::string> broken;
  std::exception_ptr failure;
  try {
    co_await channel.send(std::move(fields));
    while (!listener.ended) {
      std::optional<Frame> frame = co_await channel.next(kSilence, wake);
      if (!frame) break;
      co_await listener.hear(std::move(*frame));
    }
  } catch (const Broken& error) {
    broken = std::string{"it said "} + error.what();
  } catch (const sandbox::Detached&) {
    failure = std::current_exception();
  } catch (const Error& error) {
    broken = error.what();
  }
  stopper->over();
  context->stopper.reset();
  if (failure) std::rethrow_exception(failure);
  Outcome outcome = std::move(listener.outcome);
  outcome.restarted = lost;
  if (!listener.ended) {
    if (broken && channel.alive()) channel.process()->kill();
    const sandbox::Exit exit = co_await channel.process()->wait();
    note_loss(outcome, *stopper, broken.value_or(how_it_ended(exit)));
    co_await listener.finish();
  }
  note_stop(outcome, *stopper, cell.timeout);
  context->count = outcome.count = listener.ended ? outcome.count : context->count + 1;
  if (listener.failure) std::rethrow_exception(listener.failure);
  co_return outcome;
}

}  // namespace tb::code
