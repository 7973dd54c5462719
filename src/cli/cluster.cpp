// SPDX-License-Identifier: Apache-2.0
#include "cli/cluster.h"

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "http/client.h"
#include "http/listener.h"
#include "net/url.h"
#include "redis/locate.h"

namespace tb::cli {
namespace {

constexpr std::uint16_t kSentinelPort = 26379;

cluster::Membership::Settings membership_settings(const Config& config, ClusterStart start) {
  if (!cluster::good_worker_id(config.worker_id)) {
    throw Error{Code::invalid, "WORKER_ID=" + config.worker_id +
                                   ": must be 1 to 64 visible characters in a cluster"};
  }
  cluster::Membership::Settings settings;
  settings.id = config.worker_id;
  settings.url = start.url;
  settings.version = TB_VERSION;
  settings.epoch_file = config.state_dir + "/store/epoch";
  settings.lease = config.cluster_lease;
  settings.outage = config.cluster_outage;
  settings.redis = std::move(start.redis);
  return settings;
}

cluster::SharedLimits::Settings sharing_settings(const Config& config, const ClusterStart& start) {
  cluster::SharedLimits::Settings settings;
  settings.worker = config.worker_id;
  settings.lease = config.cluster_lease;
  settings.redis = start.redis;
  return settings;
}

}  // namespace

redis::Settings redis_settings(const Config& config) {
  redis::Settings settings;
  settings.host = config.redis_host == "localhost" ? "127.0.0.1" : config.redis_host;
  settings.port = config.redis_port;
  settings.user = config.redis_user;
  settings.password = config.redis_password;
  settings.database = config.redis_database;
  for (const std::string& one : config.redis_sentinels) {
    settings.sentinels.push_back(redis::parse_node(one, kSentinelPort));
  }
  settings.master = config.redis_master;
  settings.sentinel_password = config.redis_sentinel_password;
  for (const std::string& one : config.redis_cluster) {
    settings.cluster.push_back(redis::parse_node(one, config.redis_port));
  }
  settings.cluster_key = cluster::kRun;
  settings.tls = config.redis_tls;
  if (!config.redis_ca_file.empty()) {
    std::ifstream file{config.redis_ca_file};
    std::ostringstream all;
    all << file.rdbuf();
    settings.authorities = all.str();
    if (settings.authorities.empty()) {
      throw Error{Code::invalid, "REDIS_CA_FILE=" + config.redis_ca_file + ": can't be read"};
    }
  }
  return settings;
}

// Nobody would end others' sandboxes when the lease has run out and this server is dead.
void check_cluster(const Config& config) {
  if (!config.clustered()) return;
  if (config.docker) {
    throw Error{Code::invalid,
                "REDIS_HOST: containers can't be kept by a lease yet; a worker of a cluster has "
                "native sandboxes only: unset DOCKER_HOST and SANDBOX_PROVIDER"};
  }
  if (!config.e2b.key.empty()) {
    throw Error{Code::invalid,
                "REDIS_HOST: sandboxes at E2B can't be kept by a lease yet; a worker of a cluster "
                "has native sandboxes only: unset E2B_API_KEY and SANDBOX_PROVIDER"};
  }
  if (!config.tls.certificate_file.empty()) {
    throw Error{Code::invalid,
                "REDIS_HOST: a worker of a cluster is spoken to by http yet: set TLS_CERT_FILE for "
                "the coordinator instead, and keep workers on a network of their own"};
  }
}

std::optional<ClusterStart> start_of_cluster(const Config& config, int listener) {
  if (!config.clustered()) return std::nullopt;
  ClusterStart start;
  start.redis = redis_settings(config);
  start.url = config.advertise_url;
  if (start.url.empty()) {
    start.url = "http://" + config.host + ":" + std::to_string(http::port_of(listener));
  }
  return start;
}

Cluster::Cluster(asio::any_io_executor executor, const Config& config, ClusterStart start)
    : executor_(executor),
      secret_(config.cluster_secret),
      patience_(config.cluster_lease / 10),
      resolver_(executor, {.servers = {}, .limit = patience_}),
      shared_limits_(executor, sharing_settings(config, start)),
      membership_(executor, membership_settings(config, std::move(start))) {}

void Cluster::open(session::Sessions& sessions, native::NativeProvider& provider) {
  cluster::Membership::Worker worker;
  worker.load = [&sessions] {
    const session::Pool& pool = sessions.pool();
    // One that could not write down what it begins is not sent anything new.
    const bool takes = sessions.store().problem().empty();
    return cluster::Load{takes ? pool.settings().capacity : 0, pool.used()};
  };
  worker.hold_sandboxes = [&provider](std::uint64_t freeze_at, std::uint64_t end_at, bool first) {
    jail::Lease lease;
    lease.freeze_at = freeze_at;
    lease.end_at = end_at;
    lease.first = first ? 1 : 0;
    provider.keeper().tell(lease);
  };
  worker.sessions = [&sessions] {
    std::vector<cluster::Owned> owned;
    for (const auto& session : sessions.all()) {
      owned.push_back({session->thread_key(), session->id, session->claim});
    }
    return owned;
  };
  worker.give_up = [&sessions](std::string id) -> awaitable<void> {
    co_await sessions.give_up(std::move(id));
  };
  worker.ask_peer = [this](std::string url) { return ask_peer(std::move(url)); };
  membership_.open(std::move(worker));
  auto stop = [&provider](std::string id) -> awaitable<void> {
    co_await provider.keeper().destroy(std::move(id), true);
  };
  cluster::Mover::Parts parts{sessions, membership_, secret_, stop};
  mover_ = std::make_unique<cluster::Mover>(executor_, std::move(parts));
}

void Cluster::add_metrics(Registry& registry) {
  const auto add = [&](const char* name, const char* help, auto read) {
    registry.gauge(name, help).read_by([read] { return static_cast<double>(read()); });
  };
  add("threadbox_cluster_redis_connected", "1: this worker reaches the directory.",
      [this] { return membership_.connected() ? 1 : 0; });
  add("threadbox_cluster_lease_seconds",
      "How long this worker goes on if it can't renew its lease from now on.",
      [this] { return static_cast<double>(membership_.lease_left().count()) / 1000; });
  add("threadbox_cluster_other_workers", "Other workers in the directory.",
      [this] { return membership_.others(); });
  add("threadbox_cluster_redis_commands", "Commands that this server has sent to Redis.",
      [this] { return membership_.commands_sent() + shared_limits_.commands_sent(); });
  add("threadbox_cluster_draining", "1: this worker is being drained.",
      [this] { return membership_.draining() ? 1 : 0; });
  add("threadbox_cluster_sessions_moved", "Sessions that went to other workers in this draining.",
      [this] { return mover_ ? mover_->state().moved : 0; });
}

awaitable<void> Cluster::close() {
  if (mover_) co_await mover_->close();
  co_await shared_limits_.close();
  co_await membership_.close();
}

awaitable<bool> Cluster::ask_peer(std::string url) {
  const net::Url parsed = net::parse_url(url);
  std::string address = parsed.host;
  if (!parsed.address) {
    const std::vector<net::Address> found = co_await resolver_.resolve(parsed.host);
    address = found.front().to_string();
  }
  http::ClientLimits limits;
  limits.time = patience_;
  limits.body = 4_KiB;
  http::Client client{executor_, http::Endpoint::tcp(address, parsed.port), limits};
  std::vector<http::Header> headers{{"X-Cluster-Secret", secret_}};
  const http::Response answer =
      co_await client.request("GET", "/cluster/redis", std::move(headers), {});
  if (answer.status != 200) {
    throw Error{Code::unavailable, url + " answered " + std::to_string(answer.status)};
  }
  co_return answer.body.find("\"reached\":false") == answer.body.npos;
}

}  // namespace tb::cli
