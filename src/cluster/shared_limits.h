// SPDX-License-Identifier: Apache-2.0
// The limits of keys, tenants and users, held by all workers of a cluster together. Nobody waits
// for that: each worker decides by what it knows, tells Redis afterwards what it took and holds,
// and hears what is left for everybody. While nothing is used nothing is said; else it is one
// script in a second, or in a fifth of a lease where that is shorter. docs/auth.md says how exact
// that is. Without Redis each worker goes on with what it knows.
#pragma once

#include <string>
#include <vector>

#include "base/async.h"
#include "base/units.h"
#include "limits/limiter.h"
#include "redis/client.h"

namespace tb::cluster {

class SharedLimits {
 public:
  struct Settings {
    std::string worker;  // its name in the cluster
    Milliseconds lease = 10s;
    redis::Settings redis = {};
  };
  SharedLimits(asio::any_io_executor executor, Settings settings);

  // Begins; `limiter` outlives close(). Where nothing is limited, there is nothing to share.
  void open(limits::Limiter& limiter);
  awaitable<void> close();

  std::uint64_t commands_sent() const { return opened_ ? redis_.commands_sent() : 0; }

 private:
  using Taken = std::vector<limits::Limiter::Taken>;
  using Counts = std::vector<limits::Limiter::Count>;

  awaitable<void> live();
  awaitable<void> tell_all();
  awaitable<void> tell(const Taken& taken, const Counts& counts);
  void hear(const redis::Reply& reply, const Taken& taken, const Counts& counts);

  asio::any_io_executor executor_;
  const Settings settings_;
  redis::Client redis_;
  limits::Limiter* limiter_ = nullptr;
  bool opened_ = false;
  bool used_ = false;  // there is something to tell
  Signal wake_;
  TaskGroup tasks_;
};

}  // namespace tb::cluster
