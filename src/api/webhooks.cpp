// SPDX-License-Identifier: Apache-2.0
// Webhooks: who wants to be told of what happens to sessions.
#include "hooks/webhooks.h"

#include <boost/json.hpp>

#include "api/fields.h"
#include "api/service.h"
#include "api/webhook_fields.h"
#include "base/iso8601.h"
#include "base/utf8.h"
#include "hooks/signing.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::size_t kMaxDescription = 1000;  // characters
constexpr std::size_t kMaxEvents = 64;
constexpr double kMaxTime = 253402300799;  // the year 9999

hooks::Webhooks& webhooks_of(const Service& service) {
  if (!service.webhooks) throw Error{Code::unavailable, "this server has no webhooks"};
  return *service.webhooks;
}

json::object render(const hooks::Webhook& webhook) {
  json::array events(webhook.events.begin(), webhook.events.end());
  if (events.empty()) events.emplace_back("*");
  return {{"id", webhook.id},
          {"url", webhook.url},
          {"events", std::move(events)},
          {"description", webhook.description},
          {"active", webhook.active},
          {"created_at", iso8601(webhook.created)}};
}

http::Response answer(int status, const json::object& body) {
  return http::json_response(status, json::serialize(body));
}

// Names of events, each once; empty: all.
std::optional<std::vector<std::string>> find_events(const json::object& body) {
  const json::value* value = body.if_contains("events");
  if (!value || value->is_null()) return std::nullopt;
  const json::array* rows = value->if_array();
  if (!rows || rows->empty() || rows->size() > kMaxEvents) {
    throw http::HttpError{400, "\"events\" must be a list of names, or [\"*\"] for all of them"};
  }
  std::vector<std::string> names;
  bool all = false;
  for (const json::value& row : *rows) {
    if (!row.is_string()) throw http::HttpError{400, "\"events\" must be a list of names"};
    const std::string name{row.get_string()};
    all = all || name == "*";
    if (name != "*" && std::find(names.begin(), names.end(), name) == names.end()) {
      names.push_back(name);
    }
  }
  if (all) names.clear();
  return names;
}

// What `body` says of it; the rest stays.
void read_fields(const json::object& body, hooks::Webhook& webhook) {
  if (const auto url = find_text(body, "url")) webhook.url = *url;
  if (auto events = find_events(body)) webhook.events = std::move(*events);
  if (auto text = find_text(body, "description")) {
    if (first_characters(*text, kMaxDescription).size() < text->size()) {
      throw http::HttpError{400, "\"description\" may have 1000 characters at most"};
    }
    webhook.description = to_utf8(std::move(*text));
  }
  webhook.active = find_flag(body, "active").value_or(webhook.active);
}

awaitable<http::Response> create(Service& service, Call& call) {
  hooks::Webhooks& webhooks = webhooks_of(service);
  const json::object body = co_await read_object(call.exchange);
  hooks::Webhook like;
  like.tenant = tenant_of(call);
  if (!find_text(body, "url")) throw http::HttpError{400, "\"url\" is required"};
  read_fields(body, like);
  like.secret = find_text(body, "secret").value_or("");
  const hooks::Webhook made = co_await webhooks.create(std::move(like));
  json::object shown = render(made);
  shown["secret"] = made.secret;
  co_return answer(201, shown);
}

awaitable<http::Response> list(Service& service, Call& call) {
  json::array rows;
  for (const hooks::Webhook& webhook : webhooks_of(service).list(tenant_of(call))) {
    rows.push_back(render(webhook));
  }
  const std::size_t total = rows.size();
  co_return answer(200, {{"webhooks", std::move(rows)}, {"total", total}});
}

awaitable<http::Response> get(Service& service, Call& call) {
  co_return answer(200, render(webhooks_of(service).get(tenant_of(call), call.captured[0])));
}

awaitable<http::Response> change(Service& service, Call& call) {
  hooks::Webhooks& webhooks = webhooks_of(service);
  const json::object body = co_await read_object(call.exchange);
  hooks::Webhook webhook = webhooks.get(tenant_of(call), call.captured[0]);
  read_fields(body, webhook);
  std::optional<std::string> secret = find_text(body, "secret");
  const bool anew = secret.has_value();
  const hooks::Webhook changed = co_await webhooks.change(std::move(webhook), std::move(secret));
  json::object shown = render(changed);
  if (anew) shown["secret"] = hooks::Secrets::parse(changed.secret).current().text();
  co_return answer(200, shown);
}

awaitable<http::Response> remove(Service& service, Call& call) {
  const std::string id = call.captured[0];
  co_await webhooks_of(service).remove(tenant_of(call), id);
  co_return answer(200, {{"status", "removed"}, {"id", id}});
}

awaitable<http::Response> test(Service& service, Call& call) {
  const hooks::Attempt attempt =
      co_await webhooks_of(service).test(tenant_of(call), call.captured[0]);
  json::object shown{{"delivered", attempt.delivered()}, {"status", nullptr}, {"error", nullptr}};
  if (attempt.status != 0) shown["status"] = attempt.status;
  if (!attempt.error.empty()) shown["error"] = to_utf8(attempt.error);
  co_return answer(200, shown);
}

awaitable<http::Response> replay(Service& service, Call& call) {
  hooks::Webhooks& webhooks = webhooks_of(service);
  const json::object body = co_await read_object(call.exchange);
  const double seconds = find_number(body, "since").value_or(0);
  if (!(seconds >= 0) || seconds > kMaxTime) {
    throw http::HttpError{400, "\"since\" must be a time in seconds since 1970"};
  }
  // In milliseconds: the nanoseconds of the clock end in the year 2262.
  const hooks::WallTime since{
      std::chrono::milliseconds{static_cast<std::int64_t>(std::min(seconds, 9e9) * 1000)}};
  const bool done = find_flag(body, "done").value_or(false);
  const hooks::Webhooks::Replayed replayed =
      co_await webhooks.replay(tenant_of(call), call.captured[0], since, done);
  co_return answer(200, {{"replayed", replayed.count}, {"complete", replayed.all}});
}

}  // namespace

void add_webhook_routes(Router& router, Service& service) {
  router.add("POST", "/api/webhooks", [&service](Call& call) { return create(service, call); });
  router.add("GET", "/api/webhooks", [&service](Call& call) { return list(service, call); });
  router.add("GET", "/api/webhooks/{}", [&service](Call& call) { return get(service, call); });
  router.add("PATCH", "/api/webhooks/{}", [&service](Call& call) { return change(service, call); });
  router.add("DELETE", "/api/webhooks/{}",
             [&service](Call& call) { return remove(service, call); });
  router.add("POST", "/api/webhooks/{}/test",
             [&service](Call& call) { return test(service, call); });
  router.add("POST", "/api/webhooks/{}/replay",
             [&service](Call& call) { return replay(service, call); });
}

}  // namespace tb::api
