// SPDX-License-Identifier: Apache-2.0
// Tokens that open one session and nothing else, to hand to a browser or an agent.
#include <boost/json.hpp>
#include <cmath>

#include "api/fields.h"
#include "api/service.h"
#include "auth/session_tokens.h"
#include "base/iso8601.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr double kUsual = 3600;      // seconds
constexpr double kMost = 7 * 86400;  // a week

std::chrono::seconds read_lifetime(const json::object& body) {
  const double seconds = find_number(body, "expires_in").value_or(kUsual);
  if (!(seconds >= 1) || seconds > kMost || std::floor(seconds) != seconds) {
    throw http::HttpError{400, "\"expires_in\" must be whole seconds, from 1 to 604800"};
  }
  return std::chrono::seconds{static_cast<std::int64_t>(seconds)};
}

awaitable<http::Response> create(Service& service, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  const std::chrono::seconds lifetime = read_lifetime(body);
  const bool read_only = find_flag(body, "read_only").value_or(false);
  const auto session = get_own_session(service, call);
  auth::SessionToken token;
  token.session = session->id;
  token.tenant = session->spec.tenant;
  token.role = read_only ? auth::Role::readonly : auth::Role::user;
  token.key = call.principal.key;
  token.user = call.principal.user;
  token.scopes = call.principal.scopes;
  const auto now = std::chrono::system_clock::now();
  token.expires = now + lifetime;
  if (call.principal.expires) token.expires = std::min(token.expires, *call.principal.expires);
  const auto left = std::chrono::duration_cast<std::chrono::seconds>(token.expires - now);
  json::object answer{{"token", service.tokens->sign(token)},
                      {"session_id", session->id},
                      {"read_only", read_only},
                      {"expires_in", left.count()},
                      {"expires_at", iso8601(token.expires)}};
  co_return http::json_response(201, json::serialize(answer));
}

}  // namespace

void add_token_routes(Router& router, Service& service) {
  router.add("POST", "/api/sessions/{}/tokens",
             [&service](Call& call) { return create(service, call); });
}

}  // namespace tb::api
