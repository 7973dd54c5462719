// SPDX-License-Identifier: Apache-2.0
#include "session/sessions.h"

#include "base/error.h"
#include "base/log.h"
#include "session/label.h"

namespace tb::session {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kMargin = 5s;  // beyond a command's timeout, for its end to arrive

Milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
}

std::string join_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Refused refused_because(const policy::Refusal& refusal) {
  if (refusal.pattern) return Refused::forbidden;
  if (refusal.message == "Empty command") return Refused::empty;
  if (refusal.message.starts_with("Command '")) return Refused::not_allowed;
  if (refusal.message.starts_with("Invalid command syntax")) return Refused::syntax;
  return Refused::unresolved;
}

PoolSettings with_programs(PoolSettings settings, const policy::Policy& policy) {
  settings.programs = programs_of(policy);
  return settings;
}

std::string text_of(const sandbox::Command& command) {
  if (!command.script.empty() || command.argv.empty()) return command.script;
  std::string text;
  for (const std::string& word : command.argv) text += (text.empty() ? "" : " ") + word;
  return text;
}

// The text that a policy can read: words of an argv are data, whatever they hold.
std::string as_script(const sandbox::Command& command) {
  if (!command.script.empty() || command.argv.empty()) return command.script;
  std::string text;
  for (const std::string& word : command.argv) {
    text += text.empty() ? "'" : " '";
    for (const char c : word) text += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
    text += "'";
  }
  return text;
}

}  // namespace

Sessions::Sessions(asio::any_io_executor executor, Parts parts, Settings settings)
    : executor_(executor),
      provider_(parts.provider),
      store_(parts.store),
      events_(parts.events),
      policies_(parts.policies),
      notifier_(parts.notifier),
      default_policy_(policy_named(settings.default_policy)),
      shared_(settings.shared),
      pool_(executor, parts.provider, with_programs(std::move(settings.pool), default_policy_),
            &parts.events.metrics()),
      gone_(executor),
      tasks_(executor, [](const std::string& name, std::exception_ptr) {
        log(LogLevel::debug, "task_ended", {{"task", name}});
      }) {
  provider_.on_gone([this](const std::string& id, bool kept) { on_gone(id, kept); });
  connect_gauges();
}

void Sessions::connect_gauges() {
  Metrics& metrics = events_.metrics();
  metrics.sessions_active.read_by([this] { return static_cast<double>(count()); });
  metrics.pool_available.read_by([this] { return static_cast<double>(pool_.ready()); });
  metrics.pool_used.read_by([this] { return static_cast<double>(pool_.used()); });
  metrics.pool_capacity.set(static_cast<double>(pool_.settings().capacity));
}

const policy::Policy& Sessions::policy_named(const std::string& name) const {
  if (const policy::Policy* found = policies_.find(name)) return *found;
  throw Error{Code::invalid,
              "Unknown policy \"" + name + "\": this server has " + join_names(policies_.names())};
}

awaitable<void> Sessions::close() {
  co_await tasks_.close();
  co_await pool_.close();
}

void Sessions::insert(std::shared_ptr<Session> session) {
  if (!session->spec.thread.empty()) threads_[session->spec.thread] = session;
  const std::string id = session->id;
  sessions_[id] = std::move(session);
}

// Session and thread go together: a thread never leads to a session that is gone.
void Sessions::erase(const std::shared_ptr<Session>& session) {
  const auto thread = threads_.find(session->spec.thread);
  if (thread != threads_.end() && thread->second == session) threads_.erase(thread);
  sessions_.erase(session->id);
}

std::shared_ptr<Session> Sessions::find(const std::string& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

std::shared_ptr<Session> Sessions::get(const std::string& id) const {
  if (auto session = find(id)) return session;
  throw expired();
}

std::shared_ptr<Session> Sessions::find_thread(const std::string& thread) const {
  const auto found = threads_.find(thread);
  return found == threads_.end() ? nullptr : found->second;
}

awaitable<Sessions::Result> Sessions::get_or_create(SessionSpec spec) {
  if (spec.policy.empty()) spec.policy = default_policy_.name();
  if (spec.thread.empty()) {
    Result result;
    result.session = co_await create(std::move(spec));
    co_return result;
  }
  if (auto session = find_thread(spec.thread)) {
    events_.session_reused(session->who());
    co_return Result{session, true};
  }
  const auto under_way = creating_.find(spec.thread);
  if (under_way != creating_.end()) co_return co_await join(under_way->second);
  auto creation = std::make_shared<Creation>(executor_);
  const std::string thread = spec.thread;
  creating_[thread] = creation;
  try {
    creation->session = co_await create(std::move(spec));
  } catch (...) {
    creation->failure = std::current_exception();
  }
  creation->over = true;
  creating_.erase(thread);
  creation->done.notify_all();
  co_return co_await join(creation);
}

awaitable<Sessions::Result> Sessions::join(std::shared_ptr<Creation> creation) {
  while (!creation->over) co_await creation->done.wait();
  if (creation->failure) std::rethrow_exception(creation->failure);
  co_return Result{creation->session, false};
}

awaitable<std::shared_ptr<Session>> Sessions::create(SessionSpec spec) {
  const auto began = Clock::now();
  const policy::Policy policy = policy_named(spec.policy);
  auto session = std::shared_ptr<Session>(new Session{{}, std::move(spec), policy});
  std::exception_ptr failure;
  try {
    session->sandbox = co_await pool_.take(programs_of(policy));
    session->id = session->sandbox->id();
    session->created = session->last_activity = std::chrono::system_clock::now();
    co_await keep(session);
  } catch (const Error& error) {
    failure = std::current_exception();
    events_.session_creation_failed(session->who(), error.what());
    if (error.code() == Code::exhausted) {
      events_.resource_limit_exceeded(session->who(), Limit::pool);
    }
  }
  if (failure) std::rethrow_exception(failure);
  insert(session);
  events_.session_created(session->who(), since(began));
  record("session_created", *session);
  co_return session;
}

// On disk before anybody hears of it; with its sandbox, too, so that either finds the other again.
awaitable<void> Sessions::keep(std::shared_ptr<Session> session) {
  sessions_[session->id] = session;  // if its sandbox ends meanwhile, that is noticed
  provider_.assign(*session->sandbox, to_label(to_stored(*session)), session->spec.idle);
  std::exception_ptr failure;
  try {
    StoredSession stored = to_stored(*session);
    co_await store_.put(std::move(stored));
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) co_return;
  erase(session);
  if (session->sandbox) pool_.gone();
  co_await provider_.destroy(session->id);
  std::rethrow_exception(failure);
}

void Sessions::record(const char* kind, const Session& session) {
  Event event;
  event.at = std::chrono::system_clock::now();
  event.kind = kind;
  event.session = session.id;
  event.thread = session.spec.thread;
  event.user = session.spec.user;
  store_.record(std::move(event));
}

void Sessions::check(const policy::Policy& policy, const sandbox::Command& command,
                     const Who& who) {
  std::optional<policy::Refusal> refusal = policy.check(as_script(command), command.env);
  for (auto at = command.env.begin(); !refusal && at != command.env.end(); ++at) {
    refusal = policy.check_variable(at->first, at->second);
  }
  if (!refusal && command.terminal && !policy.allows_terminals()) {
    refusal.emplace();
    refusal->message = "The policy " + policy.name() +
                       " has no terminals: what is typed into one can't be checked";
  }
  if (!refusal) return;
  const std::string text = text_of(command);
  events_.validation_failed(who, text, refused_because(*refusal), refusal->message);
  throw PolicyError{std::move(*refusal), text};
}

awaitable<std::shared_ptr<sandbox::Process>> Sessions::start(std::shared_ptr<Session> session,
                                                             sandbox::Command command, Who who) {
  check(session->policy, command, who);
  co_await awake(session);
  const Milliseconds more = command.timeout ? *command.timeout + kMargin : Milliseconds{0};
  touch(*session, more);
  const Busy busy{*session};
  const std::shared_ptr<sandbox::Sandbox> sandbox = session->sandbox;
  if (!sandbox) throw Error{Code::unavailable, "the sandbox ended again at once"};
  const std::string text = text_of(command);
  std::shared_ptr<sandbox::Process> process;
  try {
    process = co_await sandbox->start(std::move(command));
  } catch (const Error& error) {
    events_.command_not_started(who, text, error.what());
    throw;
  }
  events_.command_started(*process, who, text);
  const bool told = notifier_ && !process->info().notify_url.empty();
  if (told) co_await notifier_->expect(session, sandbox, process);
  co_return process;
}

awaitable<std::shared_ptr<sandbox::Process>> Sessions::start_once(std::shared_ptr<Session> session,
                                                                  sandbox::Command command,
                                                                  Who who) {
  if (command.key.empty()) co_return co_await start(session, std::move(command), who);
  const std::string key = command.key;
  const std::string place = session->id + " " + key;
  while (const auto under_way = find_starting(place)) co_await under_way->done.wait();
  if (session->sandbox) {
    for (const auto& process : session->sandbox->processes()) {
      if (process->info().key == key) co_return process;
    }
  }
  auto creation = std::make_shared<Creation>(executor_);
  starting_[place] = creation;
  std::shared_ptr<sandbox::Process> process;
  std::exception_ptr failure;
  try {
    process = co_await start(session, std::move(command), who);
  } catch (...) {
    failure = std::current_exception();
  }
  starting_.erase(place);
  creation->done.notify_all();
  if (failure) std::rethrow_exception(failure);
  co_return process;
}

std::shared_ptr<Sessions::Creation> Sessions::find_starting(const std::string& place) const {
  const auto found = starting_.find(place);
  return found == starting_.end() ? nullptr : found->second;
}

awaitable<std::shared_ptr<sandbox::Process>> Sessions::execute(std::shared_ptr<Session> session,
                                                               sandbox::Command command, Who who) {
  const auto process = co_await start(session, std::move(command), who);
  co_await process->wait();
  ended(session);
  co_return process;
}

void Sessions::ended(const std::shared_ptr<Session>& session) {
  if (find(session->id) == session) touch(*session);
}

awaitable<bool> Sessions::remove(std::string id) {
  const auto session = find(id);
  if (!session) co_return false;
  erase(session);
  // Held until it is destroyed: then commands in it end with an answer.
  const std::shared_ptr<sandbox::Sandbox> sandbox = std::exchange(session->sandbox, nullptr);
  if (sandbox) pool_.gone();
  gone_.notify_all();  // who waits to bring it back need not
  // Its thread may come again at once: the row goes before that one's can be written.
  co_await drop_row(id);
  co_await provider_.destroy(id);
  events_.session_cleaned_up(session->who(), session->age());
  record("session_cleaned_up", *session);
  co_return true;
}

void Sessions::on_gone(const std::string& id, bool files_kept) {
  if (pool_.drop(id)) {
    if (files_kept) tasks_.spawn("clear", [this, id] { return provider_.destroy(id); });
    return;
  }
  const auto session = find(id);
  if (!session) return;
  if (session->sandbox) pool_.gone();
  session->sandbox = nullptr;
  gone_.notify_all();
  if (files_kept) {
    events_.sandbox_lost(session->who());
    record("sandbox_lost", *session);
    return;
  }
  erase(session);
  tasks_.spawn("forget", [this, id] { return drop_row(id); });
  events_.session_expired(session->who(), session->age());
  record("session_expired", *session);
}

}  // namespace tb::session
