// SPDX-License-Identifier: Apache-2.0
// Callbacks that wait, were delivered, or could not be.
#include <boost/json.hpp>

#include "api/fields.h"
#include "api/processes.h"
#include "api/service.h"
#include "api/webhook_fields.h"
#include "base/iso8601.h"
#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::uint64_t kMaxListed = 1000;
constexpr std::uint64_t kUsuallyListed = 100;

json::value time_or_null(hooks::WallTime time) {
  if (time.time_since_epoch().count() == 0) return nullptr;
  return json::value_from(iso8601(time));
}

json::object render(const hooks::Delivery& delivery) {
  const bool pending = delivery.state == hooks::State::pending;
  return {
      {"id", delivery.id},
      {"state", hooks::name_of(delivery.state)},
      {"type", delivery.type},
      {"url", delivery.url},
      {"webhook_id",
       delivery.webhook.empty() ? json::value(nullptr) : json::value(delivery.webhook)},
      {"session_id", delivery.session},
      {"thread_id", to_utf8(delivery.thread)},
      {"process_id", delivery.process == 0 ? json::value(nullptr) : json::value(delivery.process)},
      {"attempts", delivery.attempts},
      {"created_at", iso8601(delivery.created)},
      {"next_attempt_at", pending ? time_or_null(delivery.next) : json::value(nullptr)},
      {"ended_at", time_or_null(delivery.ended)},
      {"last_status", delivery.status == 0 ? json::value(nullptr) : json::value(delivery.status)},
      {"last_error",
       delivery.error.empty() ? json::value(nullptr) : json::value_from(to_utf8(delivery.error))}};
}

hooks::Deliveries& deliveries_of(const Service& service) {
  if (!service.deliveries) throw Error{Code::unavailable, "this server delivers no callbacks"};
  return *service.deliveries;
}

awaitable<http::Response> list(Service& service, Call& call) {
  const http::Request& request = call.exchange.request();
  const std::string* name = request.find_query("state");
  std::vector<hooks::State> states{hooks::State::pending, hooks::State::dead, hooks::State::done};
  if (name) {
    const auto state = hooks::find_state(*name);
    if (!state) throw http::HttpError{400, "\"state\" must be waiting, pending, done or dead"};
    states = {*state};
  }
  const std::string* most = request.find_query("limit");
  const std::uint64_t limit = most ? read_number(*most, "limit") : kUsuallyListed;
  if (limit < 1 || limit > kMaxListed) throw http::HttpError{400, "\"limit\" must be 1 to 1000"};
  const std::string* webhook = request.find_query("webhook_id");
  json::array rows;
  for (const hooks::State state : states) {
    const std::size_t room = limit - rows.size();
    if (room == 0) break;
    hooks::Filter filter;
    filter.tenant = tenant_of(call);
    if (webhook) filter.webhook = *webhook;
    const std::vector<hooks::Delivery> some =
        co_await deliveries_of(service).list(state, room, std::move(filter));
    for (const hooks::Delivery& row : some) rows.push_back(render(row));
  }
  json::object answer{{"deliveries", std::move(rows)}};
  co_return http::json_response(200, json::serialize(answer));
}

// Another tenant's is like none.
awaitable<void> check_owner(const Service& service, const Call& call) {
  const hooks::Delivery delivery = co_await deliveries_of(service).get(call.captured[0]);
  if (delivery.tenant == tenant_of(call)) co_return;
  throw Error{Code::not_found, "there is no delivery " + call.captured[0]};
}

awaitable<http::Response> replay(Service& service, Call& call) {
  co_await check_owner(service, call);
  const hooks::Delivery delivery = co_await deliveries_of(service).replay(call.captured[0]);
  co_return http::json_response(200, json::serialize(render(delivery)));
}

awaitable<http::Response> remove(Service& service, Call& call) {
  co_await check_owner(service, call);
  co_await deliveries_of(service).remove(call.captured[0]);
  json::object answer{{"status", "removed"}, {"id", call.captured[0]}};
  co_return http::json_response(200, json::serialize(answer));
}

}  // namespace

void check_notify_url(const Service& service, const sandbox::Command& command) {
  if (command.notify_url.empty()) return;
  try {
    net::check_destination(net::parse_url(command.notify_url), service.hook_rules);
  } catch (const Error& error) {
    throw http::HttpError{400, std::string{"\"notify_url\": "} + error.what()};
  }
}

void add_delivery_routes(Router& router, Service& service) {
  router.add("GET", "/api/webhooks/deliveries",
             [&service](Call& call) { return list(service, call); });
  router.add("POST", "/api/webhooks/deliveries/{}/replay",
             [&service](Call& call) { return replay(service, call); });
  router.add("DELETE", "/api/webhooks/deliveries/{}",
             [&service](Call& call) { return remove(service, call); });
}

}  // namespace tb::api
