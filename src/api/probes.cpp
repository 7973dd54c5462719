// SPDX-License-Identifier: Apache-2.0
#include "api/probes.h"

#include "base/error.h"
#include "http/message.h"

namespace tb::api {
namespace {

awaitable<http::Response> show_life() { co_return http::json_response(200, R"({"status":"ok"})"); }

awaitable<http::Response> show_readiness(const WhyNotReady& why_not) {
  const std::string reason = co_await why_not();
  if (!reason.empty()) throw Error{Code::unavailable, "not ready: " + reason};
  co_return http::json_response(200, R"({"status":"ready"})");
}

}  // namespace

void add_probe_routes(Router& router, WhyNotReady why_not) {
  router.add("GET", "/healthz", [](Call&) { return show_life(); });
  router.add("GET", "/readyz",
             [why_not = std::move(why_not)](Call&) { return show_readiness(why_not); });
}

}  // namespace tb::api
