// SPDX-License-Identifier: Apache-2.0
// Code in interpreters that keep their state.
#include "base/error.h"
#include "code/render.h"
#include "embed/operations.h"

namespace tb::embed {
namespace json = boost::json;
namespace {

using Chosen = std::shared_ptr<code::Context>;

constexpr std::size_t kMostWaiting = 1 << 20;  // bytes of lines; then the code waits

awaitable<Chosen> find(CoreRef core, std::shared_ptr<session::Session> session, std::string name) {
  try {
    co_return co_await core->contexts.get(session, name);
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;
  }
  throw NoProcess{"context"};
}

awaitable<Chosen> choose(CoreRef core, std::shared_ptr<session::Session> session,
                         const CodeCall& call) {
  const code::Language language = code::language_named(call.language.value_or("python"));
  if (!call.context) co_return co_await core->contexts.usual(session, language);
  Chosen context = co_await find(core, session, *call.context);
  if (call.language && context->spec.language != language) {
    throw Error{Code::invalid, "the context " + context->spec.id + " runs " +
                                   std::string{code::name_of(context->spec.language)} + ", not " +
                                   *call.language};
  }
  co_return context;
}

void add_line(CodeStream& stream, const json::object& message) {
  if (stream.left) return;
  stream.lines += json::serialize(message) + "\n";
  stream.changed.notify_all();
}

// Throws when nobody listens any more: the code is interrupted then.
awaitable<void> take_event(std::shared_ptr<CodeStream> stream, code::Event& event) {
  if (event.kind != code::Event::Kind::silence) add_line(*stream, code::render_event(event));
  while (!stream->left && stream->lines.size() > kMostWaiting) co_await stream->changed.wait();
  if (stream->left) throw Error{Code::conflict, "the code is not wanted any more"};
}

awaitable<void> run_stream(CoreRef core, std::shared_ptr<session::Session> session, CodeCall call,
                           std::shared_ptr<CodeStream> stream, std::shared_ptr<Nudge> wake) {
  try {
    const session::Busy busy{*session};
    const session::Who who = session->who();
    const session::Use use = co_await core->sessions.use(session);
    const Chosen context = co_await choose(core, session, call);
    code::Take take = [stream](code::Event& event) { return take_event(stream, event); };
    const code::Outcome outcome = co_await core->contexts.execute(
        session, context, std::move(call.cell), std::move(take), who, wake.get());
    json::object told = code::render_outcome(*context, outcome);
    told["artifacts"] = json::array{};
    told["type"] = "end_of_execution";
    if (told["error"].is_object()) {
      json::object error = told["error"].get_object();
      error["type"] = "error";
      add_line(*stream, error);
    }
    add_line(*stream, told);
  } catch (...) {
    stream->failure = std::current_exception();
  }
  stream->over = true;
  stream->changed.notify_all();
}

// A line with what a context is.
awaitable<std::string> tell(Chosen context) {
  co_return json::serialize(code::render_context(*context));
}

}  // namespace

awaitable<std::string> run_code(CoreRef core, std::string id, CodeCall call,
                                std::shared_ptr<Stopper> stopper) {
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  const auto session = co_await core->reach(std::move(id));
  const session::Busy busy{*session};
  const session::Who who = session->who();
  const session::Use use = co_await core->sessions.use(session);
  const Chosen context = co_await choose(core, session, call);
  code::Collector collector;
  code::Take take = [&collector, stopper, context](code::Event& event) {
    if (event.kind == code::Event::Kind::begun) {
      stopper->how = [context] {
        if (context->stopper) context->stopper->stop();
      };
      stopper->check();
    }
    return collector.take(event);
  };
  std::exception_ptr failure;
  code::Outcome outcome;
  try {
    outcome = co_await core->contexts.execute(session, context, std::move(call.cell),
                                              std::move(take), who);
  } catch (...) {
    failure = std::current_exception();
  }
  stopper->how = nullptr;  // the next call is another's
  if (failure) std::rethrow_exception(failure);
  co_return json::serialize(collector.render(session->id, code::render_outcome(*context, outcome)));
}

awaitable<std::uint64_t> begin_code(CoreRef core, std::string id, CodeCall call) {
  const auto executor = co_await asio::this_coro::executor;
  const auto session = co_await core->reach(std::move(id));
  const auto stream = std::make_shared<CodeStream>(executor);
  const auto wake = std::make_shared<Nudge>(executor);
  stream->wake = wake;
  core->spawn("code", [core, session, call = std::move(call), stream, wake] {
    return run_stream(core, session, call, stream, wake);
  });
  co_return core->add(stream);
}

awaitable<std::string> next_code(CoreRef core, std::uint64_t handle) {
  const auto stream = core->code_stream(handle);
  while (stream->lines.empty() && !stream->over) co_await stream->changed.wait();
  std::string lines = std::exchange(stream->lines, {});
  stream->changed.notify_all();
  if (lines.empty() && stream->failure) std::rethrow_exception(stream->failure);
  co_return lines;
}

awaitable<void> end_code(CoreRef core, std::uint64_t handle) {
  const auto stream = core->code_stream(handle);
  core->drop_code(handle);
  stream->left = true;
  stream->changed.notify_all();
  (*stream->wake)();
  co_return;
}

awaitable<std::string> create_context(CoreRef core, std::string id, code::ContextSpec spec) {
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  const auto session = co_await core->reach(std::move(id));
  const session::Who who = session->who();
  const Chosen context = co_await core->contexts.create(session, std::move(spec), who);
  co_return co_await tell(context);
}

awaitable<std::string> contexts(CoreRef core, std::string id) {
  const auto session = co_await core->reach(std::move(id));
  const session::Use use = co_await core->sessions.look(session);
  json::array listed;
  for (const Chosen& context : co_await core->contexts.list(session)) {
    listed.push_back(code::render_context(*context));
  }
  co_return json::serialize(listed);
}

awaitable<std::string> context(CoreRef core, std::string id, std::string name) {
  const auto session = co_await core->reach(std::move(id));
  const session::Use use = co_await core->sessions.look(session);
  const Chosen found = co_await find(core, session, std::move(name));
  co_return co_await tell(found);
}

awaitable<std::string> restart_context(CoreRef core, std::string id, std::string name) {
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  const auto session = co_await core->reach(std::move(id));
  const session::Who who = session->who();
  const session::Use use = co_await core->sessions.use(session);
  const Chosen found = co_await find(core, session, std::move(name));
  co_await core->contexts.restart(session, found, who);
  co_return co_await tell(found);
}

awaitable<std::string> interrupt_context(CoreRef core, std::string id, std::string name) {
  const auto session = co_await core->reach(std::move(id));
  const session::Use use = co_await core->sessions.look(session);
  const Chosen found = co_await find(core, session, std::move(name));
  core->contexts.interrupt(*found);
  co_return co_await tell(found);
}

awaitable<void> remove_context(CoreRef core, std::string id, std::string name) {
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  const auto session = co_await core->reach(std::move(id));
  const session::Use use = co_await core->sessions.use(session);
  const Chosen found = co_await find(core, session, std::move(name));
  co_await core->contexts.remove(session, found);
}

}  // namespace tb::embed
