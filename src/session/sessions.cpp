// SPDX-License-Identifier: Apache-2.0
#include "session/sessions.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "session/label.h"

namespace tb::session {
namespace {

using Clock = std::chrono::steady_clock;

Milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
}

PoolSettings with_kind(PoolSettings settings, const policy::Policy& policy,
                       const Providers& providers) {
  settings.kind.programs = Programs{policy};
  settings.kind.provider = providers.default_name();
  if (providers.takes(settings.kind.provider) != Providers::Takes::root) {
    settings.kind.environment.clear();  // the provider's own
  }
  return settings;
}

}  // namespace

Sessions::Sessions(asio::any_io_executor executor, Parts parts, Settings settings)
    : executor_(executor),
      providers_(parts.providers),
      store_(parts.store),
      events_(parts.events),
      registry_(parts.registry),
      notifier_(parts.notifier),
      volumes_(parts.volumes),
      logs_(parts.logs),
      directory_(parts.directory),
      workspaces_(parts.workspaces),
      limits_(parts.limits),
      default_policy_(settings.default_policy),
      idle_(settings.idle),
      sleep_(settings.sleep),
      shared_(settings.shared),
      pool_(executor, parts.providers,
            with_kind(std::move(settings.pool), default_policy(), parts.providers),
            &parts.events.metrics()),
      touched_timer_(executor),
      gone_(executor),
      tasks_(executor, [](const std::string& name, std::exception_ptr) {
        log(LogLevel::debug, "task_ended", {{"task", name}});
      }) {
  for (const std::string& name : providers_.names()) {
    providers_.find(name)->on_gone(
        [this, name](const std::string& id, bool kept) { on_gone(name, id, kept); });
  }
  connect_gauges();
}

void Sessions::connect_gauges() {
  Metrics& metrics = events_.metrics();
  metrics.sessions_active.read_by([this] { return static_cast<double>(count()); });
  metrics.sessions_asleep.read_by([this] {
    return static_cast<double>(
        std::count_if(sessions_.begin(), sessions_.end(),
                      [](const auto& one) { return one.second->keeps_place; }));
  });
  metrics.pool_available.read_by([this] { return static_cast<double>(pool_.ready()); });
  metrics.creations_waiting.read_by([this] { return static_cast<double>(pool_.waiting()); });
  metrics.pool_used.read_by([this] { return static_cast<double>(pool_.used()); });
  metrics.pool_capacity.set(static_cast<double>(pool_.settings().capacity));
}

const policy::Policy& Sessions::policy_named(const std::string& name) const {
  if (const policy::Policy* found = registry_.policies().find(name)) return *found;
  throw Error{Code::invalid, "Unknown policy \"" + name + "\": this server has " +
                                 registry::join_names(registry_.policies().names())};
}

awaitable<void> Sessions::close() {
  co_await tasks_.close();
  co_await pool_.close();
}

void Sessions::insert(std::shared_ptr<Session> session) {
  if (!session->held) {
    session->held = limits::Hold::count(limits_, session->owner(), limits::Stock::sessions);
  }
  if (!session->spec.thread.empty()) threads_[session->thread_key()] = session;
  const std::string id = session->id;
  sessions_[id] = std::move(session);
}

// Session and thread go together: a thread never leads to a session that is gone.
void Sessions::erase(const std::shared_ptr<Session>& session) {
  const auto thread = threads_.find(session->thread_key());
  if (thread != threads_.end() && thread->second == session) threads_.erase(thread);
  sessions_.erase(session->id);
  session->held = nullptr;
}

std::shared_ptr<Session> Sessions::find(const std::string& id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

std::shared_ptr<Session> Sessions::get(const std::string& id) const {
  if (auto session = find(id)) return session;
  const auto moved = moved_.find(id);
  if (moved != moved_.end()) throw Elsewhere{moved->second.worker, moved->second.url, id};
  throw expired();
}

std::shared_ptr<Session> Sessions::find_thread(const std::string& thread,
                                               const std::string& tenant) const {
  if (thread.empty()) return nullptr;
  const auto found = threads_.find(thread_key(tenant, thread));
  return found == threads_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<Session>> Sessions::all() const {
  std::vector<std::shared_ptr<Session>> list;
  for (const auto& [id, session] : sessions_) list.push_back(session);
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return std::tie(a->created, a->id) < std::tie(b->created, b->id);
  });
  return list;
}

awaitable<Sessions::Result> Sessions::get_or_create(SessionSpec spec,
                                                    std::shared_ptr<Patience> patience) {
  complete(spec);
  if (directory_) directory_->check_lease();
  if (spec.thread.empty()) {
    Result result;
    result.session = co_await create(std::move(spec), std::move(patience));
    co_return result;
  }
  const std::string key = thread_key(spec.tenant, spec.thread);
  for (;;) {
    if (auto session = find_thread(spec.thread, spec.tenant)) {
      events_.session_reused(session->who());
      co_return Result{session, true};
    }
    const auto under_way = creating_.find(key);
    if (under_way == creating_.end()) break;
    const auto creation = under_way->second;
    while (!creation->over) co_await creation->done.wait();
    if (!creation->abandoned) co_return finish(*creation);
  }
  auto creation = std::make_shared<Creation>(executor_);
  creating_[key] = creation;
  try {
    creation->session = co_await create(std::move(spec), std::move(patience));
  } catch (const GaveUp&) {
    creation->abandoned = true;
    creation->failure = std::current_exception();
  } catch (...) {
    creation->failure = std::current_exception();
  }
  creation->over = true;
  creating_.erase(key);
  creation->done.notify_all();
  co_return finish(*creation);
}

awaitable<Sessions::Result> Sessions::join(std::shared_ptr<Creation> creation) {
  while (!creation->over) co_await creation->done.wait();
  co_return finish(*creation);
}

Sessions::Result Sessions::finish(const Creation& creation) {
  if (creation.failure) std::rethrow_exception(creation.failure);
  return {creation.session, false};
}

awaitable<std::shared_ptr<Session>> Sessions::create(SessionSpec spec,
                                                     std::shared_ptr<Patience> patience) {
  const auto began = Clock::now();
  limits::Identity owner{spec.tenant, spec.key, spec.user};
  auto held = limits::Hold::take(limits_, owner, limits::Stock::sessions);
  if (limits_ && limits_->active()) limits_->take(owner, limits::Flow::creations);
  co_await mount(spec);
  const policy::Policy policy = policy_named(spec.policy);
  auto session = std::shared_ptr<Session>(new Session{{}, std::move(spec), policy});
  session->held = std::move(held);
  settle(*session);
  std::exception_ptr failure;
  try {
    if (directory_) directory_->check_open();
    session->sandbox = co_await pool_.take(session->kind, std::move(patience));
    session->id = session->sandbox->id();
    session->created = session->last_activity = std::chrono::system_clock::now();
    co_await claim(session);
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
  co_await furnish(session);
  events_.session_created(session->who(), since(began));
  record("session_created", *session);
  co_return session;
}

// A sandbox is a thread's only once the whole cluster knows that; then it gets the thread's files.
// Without them it is none: it would be kept in their place.
awaitable<void> Sessions::claim(std::shared_ptr<Session> session) {
  bool ours = false;
  std::exception_ptr failure;
  try {
    if (directory_) session->claim = co_await directory_->claim(session->thread_key(), session->id);
    ours = true;
    if (workspaces_) session->files_of = co_await workspaces_->restore(session);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) co_return;
  session->sandbox = nullptr;
  pool_.gone();
  co_await destroy(session->spec.provider, session->id);
  if (ours) let_go(*session);
  std::rethrow_exception(failure);
}

// After its sandbox has ended, never before: its thread may have another one at once.
void Sessions::let_go(const Session& session) {
  if (directory_) directory_->release(session.thread_key(), session.id);
}

// On disk before anybody hears of it; with its sandbox, too, so that either finds the other again.
awaitable<void> Sessions::keep(std::shared_ptr<Session> session) {
  sessions_[session->id] = session;  // if its sandbox ends meanwhile, that is noticed
  providers_.find(session->spec.provider)
      ->assign(*session->sandbox, to_label(to_stored(*session)), session->spec.idle);
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
  co_await destroy(session->spec.provider, session->id);
  let_go(*session);
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

awaitable<bool> Sessions::remove(std::string id) { return end(std::move(id), true); }

awaitable<void> Sessions::give_up(std::string id) { co_await end(std::move(id), false); }

awaitable<bool> Sessions::end(std::string id, bool for_good) {
  const auto session = find(id);
  if (!session) co_return false;
  co_await save_state(session);
  if (find(id) != session) co_return true;  // somebody else was faster
  erase(session);
  // Held until it is destroyed: then commands in it end with an answer.
  const std::shared_ptr<sandbox::Sandbox> sandbox = take_sandbox(*session);
  gone_.notify_all();  // who waits to bring it back need not
  // Its thread may come again at once: the row goes before that one's can be written.
  co_await drop_row(id);
  co_await destroy(session->spec.provider, id);
  let_go(*session);
  if (workspaces_ && for_good) workspaces_->forget(*session);
  events_.session_cleaned_up(session->who(), session->age());
  record("session_cleaned_up", *session);
  note_end(*session, "removed");
  co_return true;
}

awaitable<void> Sessions::destroy(std::string provider, std::string id) {
  if (sandbox::Provider* owner = providers_.find(provider)) co_return co_await owner->destroy(id);
  log(LogLevel::warning, "sandbox_out_of_reach",
      {{"sandbox", id.substr(0, 12)}, {"provider", provider}});
}

// It has none from now on, and no place in the pool.
std::shared_ptr<sandbox::Sandbox> Sessions::take_sandbox(Session& session) {
  std::shared_ptr<sandbox::Sandbox> sandbox = std::exchange(session.sandbox, nullptr);
  const bool keeps_place = std::exchange(session.keeps_place, false);
  if (sandbox || keeps_place) pool_.gone();
  return sandbox ? sandbox : std::exchange(session.asleep, nullptr);
}

void Sessions::on_gone(const std::string& provider, const std::string& id, bool files_kept) {
  if (pool_.drop(id)) {
    if (files_kept) tasks_.spawn("clear", [this, provider, id] { return destroy(provider, id); });
    return;
  }
  const auto session = find(id);
  if (!session) return;
  take_sandbox(*session);
  gone_.notify_all();
  if (files_kept) {
    if (session->moving) return;
    events_.sandbox_lost(session->who());
    record("sandbox_lost", *session);
    return;
  }
  erase(session);
  let_go(*session);
  if (workspaces_) workspaces_->forget(*session);
  tasks_.spawn("forget", [this, id] { return drop_row(id); });
  events_.session_expired(session->who(), session->age());
  record("session_expired", *session);
  note_end(*session, "expired");
}

}  // namespace tb::session
