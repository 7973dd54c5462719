// SPDX-License-Identifier: Apache-2.0
// Volumes: made, listed, looked at and removed. A user is whom a request names, as everywhere here.
#include "storage/volumes.h"

#include <boost/json.hpp>

#include "api/errors.h"
#include "api/fields.h"
#include "api/service.h"
#include "api/session_fields.h"
#include "api/volume_fields.h"
#include "base/iso8601.h"

namespace tb::api {
namespace json = boost::json;
namespace {

json::object render(const storage::Volume& volume) {
  json::array sessions(volume.sessions.begin(), volume.sessions.end());
  return {{"name", volume.name},
          {"user_id", volume.owner.user},
          {"volume_id", volume.id},
          {"size_bytes", volume.limit.count},
          {"limited", volume.limited},
          {"in_use_by", std::move(sessions)},
          {"created_at", iso8601(volume.created)}};
}

std::optional<Bytes> read_size(const json::object& body) {
  const std::optional<double> size = find_number(body, "size_mb");
  if (!size) return std::nullopt;
  if (!(*size >= 1) || *size > 1e9 || *size != static_cast<double>(static_cast<long>(*size))) {
    throw http::HttpError{400, "\"size_mb\" must be a whole number of MiB, 1 at least"};
  }
  return Bytes{static_cast<std::uint64_t>(*size) << 20};
}

awaitable<http::Response> create(Service& service, Call& call) {
  const json::object body = co_await read_object(call.exchange);
  storage::Owner owner{call.principal.tenant, find_text(body, "user_id").value_or("")};
  check_name(owner.user, "user_id");
  std::string name = find_text(body, "name").value_or("");
  const std::optional<Bytes> size = read_size(body);
  const storage::Volume made =
      co_await service.volumes->create(std::move(owner), std::move(name), size);
  co_return http::json_response(201, json::serialize(render(made)));
}

awaitable<http::Response> list(Service& service, Call& call) {
  const std::string* user = call.exchange.request().find_query("user_id");
  json::array rows;
  std::vector<storage::Volume> volumes =
      co_await service.volumes->list_tenant(call.principal.tenant);
  if (user) std::erase_if(volumes, [&](const auto& volume) { return volume.owner.user != *user; });
  for (const storage::Volume& volume : volumes) rows.push_back(render(volume));
  const std::size_t total = rows.size();
  json::object answer{{"volumes", std::move(rows)}, {"total", total}};
  co_return http::json_response(200, json::serialize(answer));
}

awaitable<http::Response> get(Service& service, Call& call) {
  const storage::Volume volume = co_await named_volume(service, call);
  json::object answer = render(volume);
  const storage::Volumes::Opened opened = co_await service.volumes->open(volume, true);
  const sandbox::Usage usage = co_await opened.files().usage();
  answer["used_bytes"] = usage.bytes.count;
  answer["files"] = usage.files;
  co_return http::json_response(200, json::serialize(answer));
}

awaitable<http::Response> remove(Service& service, Call& call) {
  storage::Owner owner = owner_of(call);
  const std::string user = owner.user;
  const std::string name = call.captured[0];
  try {
    co_await service.volumes->remove(std::move(owner), name);
  } catch (const storage::VolumeInUse& error) {
    json::array sessions(error.sessions().begin(), error.sessions().end());
    throw Refusal{409, error.what(), {{"name", name}, {"in_use_by", std::move(sessions)}}};
  }
  json::object answer{{"status", "deleted"}, {"name", name}, {"user_id", user}};
  co_return http::json_response(200, json::serialize(answer));
}

}  // namespace

storage::Owner owner_of(const Call& call) {
  const std::string* user = call.exchange.request().find_query("user_id");
  return {call.principal.tenant, user ? *user : std::string{}};
}

awaitable<storage::Volume> named_volume(Service& service, Call& call) {
  return service.volumes->get(owner_of(call), call.captured[0]);
}

void add_volume_routes(Router& router, Service& service) {
  router.add("POST", "/api/volumes", [&service](Call& call) { return create(service, call); });
  router.add("GET", "/api/volumes", [&service](Call& call) { return list(service, call); });
  router.add("GET", "/api/volumes/{}", [&service](Call& call) { return get(service, call); });
  router.add("DELETE", "/api/volumes/{}", [&service](Call& call) { return remove(service, call); });
}

}  // namespace tb::api
