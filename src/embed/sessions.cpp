// SPDX-License-Identifier: Apache-2.0
// Sessions and the engine itself.
#include "base/error.h"
#include "embed/operations.h"

namespace tb::embed {
namespace {

constexpr std::size_t kMaxName = 512;    // of a thread or a user
constexpr Milliseconds kWindow = 100ms;  // over which CPU use is measured

void check_name(const std::string& name, const char* field) {
  if (name.size() > kMaxName) {
    throw Error{Code::invalid, std::string{field} + " is longer than 512 bytes"};
  }
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      throw Error{Code::invalid, std::string{field} + " contains control characters"};
    }
  }
}

SessionView view_of(const session::Session& session, const char* status) {
  return {session.id,      session.spec.thread,   session.spec.policy, status,
          session.created, session.last_activity, session.expires()};
}

const char* state_name(std::uint8_t state) {
  constexpr const char* kNames[] = {"present", "degraded", "missing"};
  return kNames[std::min<std::uint8_t>(state, 2)];
}

}  // namespace

awaitable<SessionView> create_session(CoreRef core, session::SessionSpec spec) {
  check_name(spec.thread, "thread_id");
  check_name(spec.user, "user_id");
  const session::Sessions::Result result = co_await core->get_or_create(std::move(spec));
  co_return view_of(*result.session, result.existed ? "existing" : "created");
}

awaitable<std::optional<FoundView>> find_session(CoreRef core, std::string thread) {
  const auto session = co_await core->find_thread(std::move(thread));
  if (!session) co_return std::nullopt;
  core->events.session_reused(session->who());
  FoundView found;
  found.session = view_of(*session, "active");
  const auto sandbox = session->sandbox;
  if (!sandbox || !sandbox->alive()) co_return found;  // not worth waking it
  try {
    const sandbox::Usage usage = co_await sandbox->files().usage();
    found.files = usage.files;
  } catch (const Error&) {
    // It can't tell.
  }
  co_return found;
}

awaitable<StatusView> session_status(CoreRef core, std::string id) {
  const auto session = co_await core->reach(std::move(id));
  StatusView status;
  status.session = view_of(*session, "active");
  const auto sandbox = session->sandbox;
  if (!sandbox) co_return status;
  status.awake = true;
  for (const auto& process : sandbox->processes()) status.running += process->exit() ? 0 : 1;
  const auto began = std::chrono::steady_clock::now();
  status.before = co_await sandbox->load();
  asio::steady_timer timer{co_await asio::this_coro::executor, kWindow};
  co_await timer.async_wait(asio::use_awaitable);
  status.load = co_await sandbox->load();
  status.between = std::chrono::duration_cast<std::chrono::microseconds>(
      std::chrono::steady_clock::now() - began);
  co_return status;
}

awaitable<void> close_session(CoreRef core, std::string id) {
  try {
    co_await core->reach(id);
  } catch (const Error& error) {
    if (error.code() != Code::not_found) throw;
  }
  co_await core->sessions.remove(std::move(id));
}

awaitable<HealthView> health(CoreRef core) {
  HealthView health;
  health.ready = core->sessions.pool().ready();
  health.used = core->sessions.pool().used();
  health.sessions = core->sessions.count();
  health.uptime = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::steady_clock::now() - core->started);
  for (const jail::Barrier& row : core->barriers) {
    health.isolation.push_back({row.name, state_name(row.state), row.detail});
  }
  co_return health;
}

}  // namespace tb::embed
