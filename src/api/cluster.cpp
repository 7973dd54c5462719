// SPDX-License-Identifier: Apache-2.0
// What the workers of a cluster ask each other, and what their operator asks of one of them.
#include <boost/json.hpp>

#include "api/errors.h"
#include "api/fields.h"
#include "api/service.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::size_t kPiece = 256 << 10;

// Takes the same time whatever is sent.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

void check_member(const Service& service, const Call& call) {
  if (!service.directory) throw http::HttpError{404, "this server is in no cluster"};
  const auto secret = call.exchange.request().headers.find("X-Cluster-Secret").value_or("");
  if (!same(secret, service.cluster_secret)) {
    throw http::HttpError{403, "X-Cluster-Secret is not that of this cluster"};
  }
}

// For what gives a stranger power over sessions: without a secret nobody may.
session::Moves& get_moves(const Service& service, const Call& call) {
  check_member(service, call);
  if (service.cluster_secret.empty()) {
    throw http::HttpError{403, "set CLUSTER_SECRET, the same for all of the cluster, to use this"};
  }
  return *service.moves;
}

awaitable<http::Response> tell_redis(Service& service, Call& call) {
  check_member(service, call);
  const bool reached = service.directory->confirm_connected();
  co_return http::json_response(200, reached ? R"({"reached":true})" : R"({"reached":false})");
}

// For coordinators, which know nobody's keys: whose threads are meant.
awaitable<http::Response> tell_caller(Service& service, Call& call) {
  if (!service.directory) throw http::HttpError{404, "this server is in no cluster"};
  const json::object body{{"tenant", call.principal.tenant}};
  co_return http::json_response(200, json::serialize(body));
}

http::Response render(const Service& service, const session::Moves::State& state) {
  json::object body{{"worker", service.worker_id},
                    {"draining", state.draining},
                    {"sessions_left", state.left},
                    {"sessions_moved", state.moved},
                    {"sessions_with_volumes", state.tied}};
  if (!state.problem.empty()) body["problem"] = state.problem;
  return http::json_response(200, json::serialize(body));
}

awaitable<http::Response> drain(Service& service, Call& call) {
  session::Moves& moves = get_moves(service, call);
  moves.drain();
  co_return render(service, moves.state());
}

awaitable<http::Response> tell_drain(Service& service, Call& call) {
  co_return render(service, get_moves(service, call).state());
}

awaitable<http::Response> stop_draining(Service& service, Call& call) {
  session::Moves& moves = get_moves(service, call);
  moves.stop_draining();
  co_return render(service, moves.state());
}

std::string required(const json::object& body, const char* name) {
  std::optional<std::string> text = find_text(body, name);
  if (!text) throw http::HttpError{400, std::string{"\""} + name + "\" is missing"};
  return std::move(*text);
}

awaitable<http::Response> expect(Service& service, Call& call) {
  session::Moves& moves = get_moves(service, call);
  const json::object body = co_await read_object(call.exchange);
  std::string session = required(body, "session_id");
  std::string label = required(body, "label");
  std::string from = required(body, "from");
  co_await moves.expect(std::move(session), std::move(label), std::move(from));
  co_return http::json_response(200, R"({"expected":true})");
}

awaitable<http::Response> arrive(Service& service, Call& call) {
  session::Moves& moves = get_moves(service, call);
  const json::object body = co_await read_object(call.exchange);
  std::string worker = required(body, "worker");
  std::string epoch = required(body, "epoch");
  co_await moves.arrive(call.captured[0], std::move(worker), std::move(epoch));
  co_return http::json_response(200, R"({"arrived":true})");
}

// All files of a session that is about to leave, as tar.
awaitable<http::Response> hand_out(Service& service, Call& call) {
  const auto session = get_moves(service, call).leaving(call.captured[0]);
  const std::shared_ptr<sandbox::Sandbox> sandbox = session->sandbox;
  if (!sandbox) throw Error{Code::unavailable, "the sandbox has ended"};
  std::vector<std::string> all(1);
  const auto archive = co_await sandbox->files().archive(std::move(all), false, Bytes{UINT64_MAX});
  http::Response head;
  head.content_type = "application/x-tar";
  co_await call.exchange.begin(std::move(head), std::nullopt);
  std::string buffer(kPiece, '\0');
  while (const std::size_t got = co_await archive->read(buffer)) {
    const std::string_view piece{buffer.data(), got};
    co_await call.exchange.write(piece);
  }
  co_await call.exchange.end();
  co_return http::Response{};
}

}  // namespace

void add_cluster_routes(Router& router, Service& service) {
  const auto add = [&](const char* method, const char* path, auto answer) {
    router.add(method, path, [&service, answer](Call& call) { return answer(service, call); });
  };
  add("GET", "/cluster/redis", tell_redis);
  add("GET", "/cluster/caller", tell_caller);
  add("POST", "/cluster/arrivals", expect);
  add("POST", "/cluster/arrivals/{}", arrive);
  add("GET", "/cluster/leaving/{}", hand_out);
  add("POST", "/admin/drain", drain);
  add("GET", "/admin/drain", tell_drain);
  add("DELETE", "/admin/drain", stop_draining);
}

}  // namespace tb::api
