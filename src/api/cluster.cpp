// SPDX-License-Identifier: Apache-2.0
// What the workers of a cluster ask each other.
#include "api/errors.h"
#include "api/service.h"

namespace tb::api {
namespace {

// Takes the same time whatever is sent.
bool same(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = static_cast<unsigned char>(difference | (a[i] ^ b[i]));
  }
  return difference == 0;
}

awaitable<http::Response> tell_redis(Service& service, Call& call) {
  if (!service.directory) throw http::HttpError{404, "this server is in no cluster"};
  const auto secret = call.exchange.request().headers.find("X-Cluster-Secret").value_or("");
  if (!same(secret, service.cluster_secret)) {
    throw http::HttpError{403, "X-Cluster-Secret is not that of this cluster"};
  }
  const bool reached = service.directory->confirm_connected();
  co_return http::json_response(200, reached ? R"({"reached":true})" : R"({"reached":false})");
}

}  // namespace

void add_cluster_routes(Router& router, Service& service) {
  router.add("GET", "/cluster/redis", [&service](Call& call) { return tell_redis(service, call); });
}

}  // namespace tb::api
