// SPDX-License-Identifier: Apache-2.0
#include <boost/json.hpp>

#include "api/service.h"

namespace tb::api {
namespace json = boost::json;
namespace {

json::object isolation(const Service& service) {
  json::object rows;
  bool full = true;
  for (const IsolationRow& row : service.isolation) {
    rows[row.name] = row.state;
    // Advice about the host is not a barrier of the sandbox.
    if (row.state != "present" && row.name != "host sysctls") full = false;
  }
  return {{"level", full ? "full" : "degraded"}, {"barriers", std::move(rows)}};
}

// How well this server is guarded is nothing for strangers.
awaitable<http::Response> health(Service& service, Call& call) {
  const session::Pool& pool = service.sessions.pool();
  const auto uptime = std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::steady_clock::now() - service.started);
  // A store that can't write forgets at a restart what happens now; what runs goes on.
  const std::string problem = service.sessions.store().problem();
  json::object body{
      {"status", problem.empty() ? "healthy" : "degraded"},
      {"worker_id", service.worker_id},
      {"pool_size", pool.settings().size},
      {"pool_available", pool.ready()},
      {"active_sessions", service.sessions.count()},
      {"uptime_seconds", uptime.count()},
      {"redis_connected", service.directory && service.directory->connected()},
      {"pool",
       {{"available", pool.ready()},
        {"allocated", pool.used()},
        {"total", pool.ready() + pool.used()},
        {"max_capacity", pool.settings().capacity}}},
      {"config",
       {{"pool_size", pool.settings().size},
        {"min_pool_size", pool.settings().minimum},
        {"max_pool_size", pool.settings().capacity},
        {"aggressive_cleanup", service.aggressive_cleanup},
        {"default_policy", service.sessions.default_policy().name()}}},
  };
  if (!call.principal.stranger) {
    body["version"] = TB_VERSION;
    body["isolation"] = isolation(service);
  }
  if (!problem.empty()) body["problem"] = "the store can't be written";
  co_return http::json_response(200, json::serialize(body));
}

}  // namespace

void add_health_routes(Router& router, Service& service) {
  router.add("GET", "/health", [&service](Call& call) { return health(service, call); });
}

}  // namespace tb::api
