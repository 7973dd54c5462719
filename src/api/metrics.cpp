// SPDX-License-Identifier: Apache-2.0
// GET /metrics, for Prometheus.
#include "session/metrics.h"
#include "api/service.h"

namespace tb::api {
namespace {

awaitable<http::Response> show(Service& service) {
  http::Response response;
  response.content_type = Registry::kContentType;
  response.body = service.metrics.registry.render();
  co_return response;
}

// What the sessions and their pool know anyway is asked of them when somebody looks.
void read_gauges(const Service& service) {
  const session::Sessions* sessions = &service.sessions;
  session::Metrics& metrics = service.metrics;
  metrics.sessions_active.read_by([=] { return static_cast<double>(sessions->count()); });
  metrics.pool_available.read_by([=] { return static_cast<double>(sessions->pool().ready()); });
  metrics.pool_used.read_by([=] { return static_cast<double>(sessions->pool().used()); });
  metrics.pool_capacity.set(static_cast<double>(sessions->pool().settings().capacity));
}

}  // namespace

void add_metrics_routes(Router& router, Service& service) {
  read_gauges(service);
  router.add("GET", "/metrics", [&service](Call&) { return show(service); });
}

}  // namespace tb::api
