// SPDX-License-Identifier: Apache-2.0
#include "session/sessions.h"

#include "base/error.h"
#include "base/id.h"
#include "base/log.h"
#include "session/label.h"

namespace tb::session {
namespace {

constexpr Milliseconds kClearing = 10s;
constexpr Milliseconds kMargin = 5s;  // beyond a command's timeout, for its end to arrive

std::string brief(const std::string& id, std::size_t length) { return id.substr(0, length); }

}  // namespace

Sessions::Sessions(asio::any_io_executor executor, sandbox::Provider& provider, PoolSettings pool)
    : executor_(executor),
      provider_(provider),
      pool_(executor, provider, std::move(pool)),
      gone_(executor) {
  provider_.on_gone([this](const std::string& id, bool kept) { on_gone(id, kept); });
}

awaitable<void> Sessions::open() {
  std::vector<sandbox::Found> all = co_await provider_.list();
  // All at once: one that does not answer keeps nobody waiting for long.
  Signal done{executor_};
  TaskGroup tasks{executor_, [](const std::string&, std::exception_ptr) {}};
  std::size_t left = all.size();
  for (sandbox::Found& found : all) {
    tasks.spawn("adopt", [this, &left, &done, found = std::move(found)]() -> awaitable<void> {
      co_await adopt(found);
      if (--left == 0) done.notify_all();
    });
  }
  while (left > 0) co_await done.wait();
  co_await tasks.close();
  pool_.open();
}

awaitable<void> Sessions::close() { co_await pool_.close(); }

// What an earlier server left: sessions, ready sandboxes, and files of sandboxes that died.
awaitable<void> Sessions::adopt(sandbox::Found found) {
  std::optional<Session> known = from_label(found.label);
  std::shared_ptr<sandbox::Sandbox> box;
  try {
    if (!known && !found.label.empty()) {
      co_await provider_.destroy(found.id);
      co_return;
    }
    if (found.alive) box = co_await provider_.adopt(found);
  } catch (const std::exception& error) {
    // A session whose sandbox is lost still has its files.
    log(LogLevel::warning, "adoption_failed", {{"sandbox", found.id}, {"error", error.what()}});
  }
  if (!known) {
    if (box) pool_.add_ready(std::move(box));
    co_return;
  }
  auto session = std::make_shared<Session>(*known);
  session->sandbox = std::move(box);
  session->last_activity = std::chrono::system_clock::now();
  if (session->sandbox) pool_.count_used();
  insert(session);
  log(LogLevel::info, "session_adopted",
      {{"session", brief(session->id, 12)}, {"alive", session->sandbox ? "yes" : "no"}});
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
  throw Error{Code::not_found, "Invalid or expired session"};
}

std::shared_ptr<Session> Sessions::find_thread(const std::string& thread) const {
  const auto found = threads_.find(thread);
  return found == threads_.end() ? nullptr : found->second;
}

awaitable<Sessions::Result> Sessions::get_or_create(SessionSpec spec) {
  if (spec.thread.empty()) {
    Result result;
    result.session = co_await create(std::move(spec));
    co_return result;
  }
  if (auto session = find_thread(spec.thread)) co_return Result{session, true};
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
  auto session = std::make_shared<Session>();
  session->sandbox = co_await pool_.take();
  session->id = session->sandbox->id();
  session->spec = std::move(spec);
  session->created = session->last_activity = std::chrono::system_clock::now();
  std::string label = to_label(*session);
  provider_.assign(*session->sandbox, std::move(label), session->spec.idle);
  insert(session);
  log(LogLevel::info, "session_created",
      {{"user", brief(session->spec.user, 8)},
       {"thread", brief(session->spec.thread, 12)},
       {"session", brief(session->id, 12)}});
  co_return session;
}

void Sessions::touch(Session& session, Milliseconds more) {
  session.last_activity = std::chrono::system_clock::now();
  if (session.sandbox) provider_.renew(*session.sandbox, session.spec.idle + more);
}

awaitable<void> Sessions::awake(std::shared_ptr<Session> session) {
  if (session->sandbox && session->sandbox->alive()) co_return;
  const std::string& key = session->id;
  const auto under_way = waking_.find(key);
  if (under_way != waking_.end()) {
    co_await join(under_way->second);
    co_return;
  }
  auto creation = std::make_shared<Creation>(executor_);
  waking_[key] = creation;
  try {
    co_await revive(*session);
    creation->session = session;
  } catch (...) {
    creation->failure = std::current_exception();
  }
  creation->over = true;
  waking_.erase(key);
  creation->done.notify_all();
  if (creation->failure) std::rethrow_exception(creation->failure);
}

awaitable<void> Sessions::revive(Session& session) {
  // Its PID 1 is dead, but the provider has not cleared it away yet: that comes first.
  auto cleared = [&session] { return session.sandbox == nullptr; };
  const bool gone = co_await gone_.until(cleared, kClearing);
  if (!gone) throw Error{Code::unavailable, "the sandbox has ended, but not gone"};
  sandbox::SandboxSpec spec;
  spec.id = session.id;
  spec.environment = pool_.settings().environment;
  spec.limits = pool_.settings().limits;
  spec.idle = session.spec.idle;
  spec.label = to_label(session);
  pool_.reserve();
  std::shared_ptr<sandbox::Sandbox> sandbox;
  try {
    sandbox = co_await provider_.create(std::move(spec));
  } catch (...) {
    pool_.gone();
    throw;
  }
  if (!find(session.id)) {
    // It was removed meanwhile: nothing of it may stay.
    pool_.gone();
    co_await provider_.destroy(session.id);
    throw Error{Code::not_found, "Invalid or expired session"};
  }
  session.sandbox = std::move(sandbox);
  log(LogLevel::info, "session_revived", {{"session", brief(session.id, 12)}});
}

awaitable<std::shared_ptr<sandbox::Process>> Sessions::start(std::shared_ptr<Session> session,
                                                             sandbox::Command command) {
  co_await awake(session);
  const Milliseconds more = command.timeout ? *command.timeout + kMargin : Milliseconds{0};
  touch(*session, more);
  const std::shared_ptr<sandbox::Sandbox> sandbox = session->sandbox;
  if (!sandbox) throw Error{Code::unavailable, "the sandbox ended again at once"};
  co_return co_await sandbox->start(std::move(command));
}

awaitable<std::shared_ptr<sandbox::Process>> Sessions::execute(std::shared_ptr<Session> session,
                                                               sandbox::Command command) {
  auto process = co_await start(session, std::move(command));
  co_await process->wait();
  touch(*session);
  co_return process;
}

awaitable<bool> Sessions::remove(std::string id) {
  const auto session = find(id);
  if (!session) co_return false;
  const bool had_sandbox = session->sandbox != nullptr;
  erase(session);
  if (had_sandbox) pool_.gone();
  co_await provider_.destroy(id);
  log(LogLevel::info, "session_cleaned_up", {{"session", brief(id, 12)}});
  co_return true;
}

void Sessions::on_gone(const std::string& id, bool files_kept) {
  if (pool_.drop(id)) return;
  const auto session = find(id);
  if (!session) return;
  if (session->sandbox) pool_.gone();
  session->sandbox = nullptr;
  gone_.notify_all();
  if (files_kept) {
    log(LogLevel::warning, "sandbox_lost", {{"session", brief(id, 12)}});
    return;
  }
  erase(session);
  log(LogLevel::info, "session_expired", {{"session", brief(id, 12)}});
}

}  // namespace tb::session
