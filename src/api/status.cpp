// SPDX-License-Identifier: Apache-2.0
// How one session is: alive or not, since when, and what it takes of the machine.
#include <boost/json.hpp>
#include <cmath>

#include "api/errors.h"
#include "api/fields.h"
#include "api/service.h"
#include "base/iso8601.h"
#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;
namespace {

using Clock = std::chrono::steady_clock;
constexpr Milliseconds kWindow = 100ms;  // over which CPU use is measured

template <class T>
json::value or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

// Two looks at the clock of the sandbox's CPU time, a moment apart.
awaitable<json::object> measure(std::shared_ptr<sandbox::Sandbox> sandbox) {
  const auto began = Clock::now();
  const sandbox::Load before = co_await sandbox->load();
  asio::steady_timer timer{co_await asio::this_coro::executor, kWindow};
  co_await timer.async_wait(asio::use_awaitable);
  const sandbox::Load load = co_await sandbox->load();
  json::object use{{"memory_bytes", nullptr},
                   {"memory_mb", nullptr},
                   {"cpu_time_ms", nullptr},
                   {"cpu_percent", nullptr},
                   {"processes", or_null(load.processes)}};
  if (load.memory) {
    use["memory_bytes"] = load.memory->count;
    use["memory_mb"] = std::round(static_cast<double>(load.memory->count) / 10485.76) / 100;
  }
  if (load.cpu && before.cpu) {
    using Microseconds = std::chrono::duration<double, std::micro>;
    const double wall = Microseconds{Clock::now() - began}.count();
    const double share = Microseconds{*load.cpu - *before.cpu}.count() / wall;
    use["cpu_time_ms"] = load.cpu->count() / 1000;
    use["cpu_percent"] = std::round(share * 1000) / 10;  // of one core
  }
  co_return use;
}

std::size_t running(const session::Session& session) {
  if (!session.sandbox) return 0;
  std::size_t count = 0;
  for (const auto& process : session.sandbox->processes()) count += process->exit() ? 0 : 1;
  return count;
}

awaitable<http::Response> status(Service& service, Call& call) {
  const std::string& id = call.captured[0];
  const auto session = find_own_session(service, call, id);
  if (!session) {
    throw Refusal{404,
                  "Invalid or expired session",
                  {{"status", "not found"}, {"session_id", to_utf8(id.substr(0, 200))}}};
  }
  json::object answer{{"status", "active"},
                      {"session_id", session->id},
                      {"thread_id", session->spec.thread},
                      {"worker", service.worker_id},
                      {"policy", session->spec.policy},
                      {"created_at", iso8601(session->created)},
                      {"last_activity", iso8601(session->last_activity)},
                      {"expires_at", iso8601(session->expires())},
                      {"running_commands", running(*session)},
                      {"sandbox", session->sandbox ? "running" : "asleep"}};
  if (const auto sandbox = session->sandbox; sandbox && sandbox->alive()) {
    try {
      const json::object use = co_await measure(sandbox);
      for (const auto& [name, value] : use) answer[name] = value;
    } catch (const Error& error) {
      // It was put away under our eyes.
      const bool lives = find_own_session(service, call, id) == session;
      if (!lives || error.code() != Code::not_found) throw;
      answer["sandbox"] = "asleep";
    }
  }
  const sandbox::Limits& limits = session->kind.limits;
  answer["memory_limit_bytes"] = limits.memory.count;
  answer["cpu_limit_percent"] = limits.cpu_quota / 1000;
  co_return http::json_response(200, json::serialize(answer));
}

}  // namespace

void add_status_routes(Router& router, Service& service) {
  router.add("GET", "/status/{}", [&service](Call& call) { return status(service, call); });
}

}  // namespace tb::api
