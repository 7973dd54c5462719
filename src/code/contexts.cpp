// SPDX-License-Identifier: Apache-2.0
// Which contexts there are: made, found again, ended. Their calls: calls.cpp, bash.cpp.
#include "code/contexts.h"

#include <algorithm>
#include <boost/json.hpp>
#include <csignal>

#include "base/error.h"
#include "base/id.h"

namespace tb::code {
namespace json = boost::json;
namespace {

constexpr std::size_t kMaxContexts = 16;  // of a session
constexpr std::size_t kMaxWaiting = 32;   // for one context
constexpr Milliseconds kIdleAnswer = 300ms;
constexpr Milliseconds kBusyAnswer = 3s;

// Empty when it works for none, or says something else.
std::optional<ContextSpec> parse_context(const std::string& text, Language language) {
  try {
    const json::object object = json::parse(text).as_object();
    ContextSpec spec;
    spec.language = language;
    spec.id = object.at("id").as_string();
    spec.cwd = object.at("cwd").as_string();
    for (const json::value& pair : object.at("env").as_array()) {
      spec.env.emplace_back(pair.at(0).as_string(), pair.at(1).as_string());
    }
    return spec.id.empty() || spec.id.size() > 64 ? std::nullopt : std::optional{spec};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

Contexts::ContextRef find_in(const std::vector<Contexts::ContextRef>& contexts,
                             const std::string& id) {
  const auto found = std::find_if(contexts.begin(), contexts.end(),
                                  [&](const auto& one) { return one->spec.id == id; });
  return found == contexts.end() ? nullptr : *found;
}

bool holds(const std::vector<Contexts::ContextRef>& contexts, const sandbox::Process& process) {
  return std::any_of(contexts.begin(), contexts.end(), [&](const auto& one) {
    return one->channel && one->channel->process().get() == &process;
  });
}

}  // namespace

Context::Turn::~Turn() {
  if (!context_) return;
  std::erase(context_->places_, place_);
  context_->moved_.notify_all();
}

awaitable<Context::Turn> Context::turn(std::shared_ptr<Context> context) {
  if (context->places_.size() > kMaxWaiting) {
    throw Error{Code::limited, "too many calls wait for the context: make another one"};
  }
  Turn turn{context, context->next_++};
  context->places_.push_back(turn.place_);
  while (context->places_.front() != turn.place_) co_await context->moved_.wait();
  if (context->removed) throw Error{Code::conflict, "the context was deleted"};
  co_return turn;
}

Contexts::Contexts(asio::any_io_executor executor, session::Sessions& sessions, shell::Runs& runs,
                   CellLimits limits)
    : executor_(executor), sessions_(sessions), runs_(runs), limits_(limits) {}

Contexts::PlaceRef Contexts::place_of(const SessionRef& session) {
  PlaceRef& place = places_[session->id];
  if (!place || place->session.lock() != session) {
    place = std::make_shared<Place>(executor_);
    place->session = session;
    const PlaceRef made = place;
    // Those whose sessions are gone; their interpreters went with them.
    std::erase_if(places_, [](const auto& entry) { return entry.second->session.expired(); });
    return made;
  }
  return place;
}

// With what runs in the session's sandbox already, be it that an earlier server or the pool has
// started it.
awaitable<Contexts::PlaceRef> Contexts::look_through(SessionRef session) {
  const PlaceRef place = place_of(session);
  std::shared_ptr<sandbox::Sandbox> sandbox;
  for (;;) {
    sandbox = session->sandbox;
    if (!sandbox || place->sandbox.lock() == sandbox) co_return place;
    if (!place->looking && place->starting == 0) break;
    co_await place->settled.wait();
  }
  place->looking = true;
  std::exception_ptr failure;
  try {
    co_await adopt_all(place, sandbox);
    place->sandbox = sandbox;
  } catch (...) {
    failure = std::current_exception();
  }
  place->looking = false;
  place->settled.notify_all();
  if (failure) std::rethrow_exception(failure);
  co_return place;
}

awaitable<void> Contexts::adopt_all(PlaceRef place, std::shared_ptr<sandbox::Sandbox> sandbox) {
  place->spares.clear();
  for (const auto& process : sandbox->processes()) {
    const auto language = find_interpreter(process->info());
    if (process->exit() || !language || holds(place->contexts, *process)) continue;
    co_await adopt(place, process, *language);
  }
  for (const auto& shell : sandbox->shells()) {
    if (!shell->closed()) adopt_shell(*place, executor_, shell);
  }
}

// One that answers neither at once nor after an interrupt is of no use to anybody.
awaitable<void> Contexts::adopt(PlaceRef place, std::shared_ptr<sandbox::Process> process,
                                Language language) {
  const auto channel = std::make_shared<Channel>(process);
  std::optional<std::string> told;
  try {
    told = co_await channel->sync(kIdleAnswer);
    if (!told && !process->exit()) {
      process->signal(SIGINT, true);
      told = co_await channel->sync(kBusyAnswer);
    }
  } catch (const sandbox::Detached&) {
    throw;
  } catch (const Error&) {
    // It has closed its ears: as one that does not answer.
  }
  if (!told) {
    process->kill();
    place->lost.insert(language);
    co_return;
  }
  auto spec = parse_context(*told, language);
  if (!spec) {
    place->spares[language].push_back(channel);
    co_return;
  }
  ContextRef context = find_in(place->contexts, spec->id);
  if (!context) {
    context = std::make_shared<Context>(executor_, std::move(*spec));
    place->contexts.push_back(context);
  }
  if (context->channel && context->channel->alive()) {
    process->kill();  // that says it is one that there is
    co_return;
  }
  context->channel = channel;
  context->used = true;
}

void Contexts::adopt_shell(Place& place, asio::any_io_executor executor,
                           std::shared_ptr<sandbox::Shell> shell) {
  const std::string prefix = tag_of(Language::bash) + " ";
  if (!shell->info().tag.starts_with(prefix)) return;
  ContextSpec spec;
  spec.id = shell->info().tag.substr(prefix.size());
  spec.language = Language::bash;
  spec.cwd = shell->info().cwd;
  ContextRef context = find_in(place.contexts, spec.id);
  if (!context) {
    context = std::make_shared<Context>(executor, std::move(spec));
    place.contexts.push_back(context);
  }
  context->shell = std::move(shell);
}

awaitable<std::vector<Contexts::ContextRef>> Contexts::list(SessionRef session) {
  const PlaceRef place = co_await look_through(session);
  co_return place->contexts;
}

awaitable<Contexts::ContextRef> Contexts::get(SessionRef session, std::string id) {
  const PlaceRef place = co_await look_through(session);
  ContextRef context = find_in(place->contexts, id);
  if (!context)
    throw Error{Code::not_found, "no such context in this session: " + id.substr(0, 64)};
  co_return context;
}

awaitable<Contexts::ContextRef> Contexts::usual(SessionRef session, Language language) {
  const PlaceRef place = co_await look_through(session);
  const std::string id{name_of(language)};
  ContextRef context = find_in(place->contexts, id);
  if (!context) {
    ContextSpec spec;
    spec.id = id;
    spec.language = language;
    context = std::make_shared<Context>(executor_, std::move(spec));
    context->used = place->lost.erase(language) > 0;
    place->contexts.push_back(context);
  }
  co_return context;
}

awaitable<Contexts::ContextRef> Contexts::create(SessionRef session, ContextSpec spec,
                                                 session::Who who) {
  const session::Use use = co_await sessions_.use(session);
  const PlaceRef place = co_await look_through(session);
  if (place->contexts.size() >= kMaxContexts) {
    throw Error{Code::limited, "the session has 16 contexts: delete one that is not needed"};
  }
  if (spec.id.empty()) spec.id = "ctx-" + make_uuid().substr(0, 13);
  const auto context = std::make_shared<Context>(executor_, std::move(spec));
  place->contexts.push_back(context);
  std::exception_ptr failure;
  try {
    const Context::Turn turn = co_await Context::turn(context);
    co_await start(session, context, who);
  } catch (...) {
    failure = std::current_exception();
    context->removed = true;
    std::erase(place->contexts, context);
  }
  if (failure) std::rethrow_exception(failure);
  co_return context;
}

void Contexts::interrupt(Context& context) {
  if (!context.stopper) throw Error{Code::conflict, "no code runs in the context"};
  context.stopper->interrupt();
}

awaitable<void> Contexts::restart(SessionRef session, ContextRef context, session::Who who) {
  const session::Use use = co_await sessions_.use(session);
  // Not behind what may never end.
  if (context->stopper) context->stopper->kill();
  const Context::Turn turn = co_await Context::turn(context);
  if (context->channel) context->channel->process()->kill();
  if (context->shell) co_await context->shell->close();
  context->channel.reset();
  context->shell.reset();
  context->used = false;
  context->count = 0;
  co_await start(session, context, who);
}

awaitable<void> Contexts::remove(SessionRef session, ContextRef context) {
  const PlaceRef place = place_of(session);
  context->removed = true;
  std::erase(place->contexts, context);
  if (context->channel) context->channel->process()->kill();
  if (context->shell) co_await context->shell->close();
  const std::shared_ptr<sandbox::Process> process =
      context->channel ? context->channel->process() : nullptr;
  if (process) co_await process->wait();
}

awaitable<void> Contexts::warm(std::shared_ptr<sandbox::Sandbox> sandbox, std::string language) {
  sandbox::Command command = interpreter(language_named(language));
  co_await sandbox->start(std::move(command));
}

}  // namespace tb::code
