// SPDX-License-Identifier: Apache-2.0
// A worker's part in a cluster, wired together for a server.
#pragma once

#include <memory>
#include <optional>

#include "base/metrics.h"
#include "cluster/membership.h"
#include "cluster/mover.h"
#include "cluster/shared_limits.h"
#include "config.h"
#include "native/provider.h"
#include "net/resolver.h"
#include "session/sessions.h"

namespace tb::cli {

// The settings of a client of Redis; reads REDIS_CA_FILE.
redis::Settings redis_settings(const Config& config);

// What is known before privileges are dropped.
struct ClusterStart {
  redis::Settings redis;
  std::string url;  // that others reach us at
};

// Throws Error{invalid} for settings that can't go together with a cluster.
void check_cluster(const Config& config);
// Empty: this server stands alone.
std::optional<ClusterStart> start_of_cluster(const Config& config, int listener);

class Cluster {
 public:
  Cluster(asio::any_io_executor executor, const Config& config, ClusterStart start);

  session::Directory& directory() { return membership_; }
  session::Moves& moves() { return *mover_; }  // once it is open
  // First: sessions that are there already count for all workers, too.
  void share(limits::Limiter& limiter) { shared_limits_.open(limiter); }
  void open(session::Sessions& sessions, native::NativeProvider& provider);
  awaitable<void> close();
  void add_metrics(Registry& registry);

 private:
  awaitable<bool> ask_peer(std::string url);

  asio::any_io_executor executor_;
  const std::string secret_;
  const Milliseconds patience_;
  net::Resolver resolver_;
  cluster::SharedLimits shared_limits_;
  cluster::Membership membership_;
  std::unique_ptr<cluster::Mover> mover_;
};

}  // namespace tb::cli
