// SPDX-License-Identifier: Apache-2.0
// What the registry holds, for who chooses from it.
#include <boost/json.hpp>

#include "api/errors.h"
#include "api/service.h"
#include "base/utf8.h"

namespace tb::api {
namespace json = boost::json;
namespace {

json::array words(const std::vector<std::string>& names) {
  json::array list;
  for (const std::string& name : names) list.emplace_back(name);
  return list;
}

[[noreturn]] void refuse(const std::string& what, const std::vector<std::string>& known) {
  throw Refusal{
      404, what + "; there are " + registry::join_names(known), {{"known", words(known)}}};
}

// Shown in messages and bodies: not more of it than is sensible.
std::string shown(const std::string& name) { return to_utf8(name.substr(0, 200)); }

awaitable<http::Response> kinds(const registry::Registry& registry) {
  json::object answer;
  for (const std::string& kind : registry::Registry::kinds()) {
    answer[kind] = words(*registry.names(kind));
  }
  co_return http::json_response(200, json::serialize(answer));
}

awaitable<http::Response> list(const registry::Registry& registry, Call& call) {
  const std::string& kind = call.captured[0];
  const auto names = registry.names(kind);
  if (!names) refuse("No registry of \"" + shown(kind) + "\"", registry::Registry::kinds());
  json::array items;
  for (const std::string& name : *names) {
    const json::object whole = *registry.describe(kind, name);
    const json::value* description = whole.if_contains("description");
    items.push_back({{"name", name},
                     {"description", description ? *description : json::value("")},
                     {"source", whole.at("source")}});
  }
  json::object answer{{"kind", kind}, {"count", items.size()}, {"items", std::move(items)}};
  co_return http::json_response(200, json::serialize(answer));
}

awaitable<http::Response> one(const registry::Registry& registry, Call& call) {
  const std::string& kind = call.captured[0];
  const auto names = registry.names(kind);
  if (!names) refuse("No registry of \"" + shown(kind) + "\"", registry::Registry::kinds());
  const auto found = registry.describe(kind, call.captured[1]);
  if (!found) refuse("No \"" + shown(call.captured[1]) + "\" among the " + kind, *names);
  co_return http::json_response(200, json::serialize(*found));
}

}  // namespace

void add_registry_routes(Router& router, Service& service) {
  const registry::Registry& registry = service.sessions.registry();
  router.add("GET", "/api/registry", [&registry](Call&) { return kinds(registry); });
  router.add("GET", "/api/registry/{}", [&registry](Call& call) { return list(registry, call); });
  router.add("GET", "/api/registry/{}/{}", [&registry](Call& call) { return one(registry, call); });
}

}  // namespace tb::api
