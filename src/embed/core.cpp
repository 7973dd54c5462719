// SPDX-License-Identifier: Apache-2.0
#include "embed/core.h"

#include "base/error.h"

namespace tb::embed {
namespace {

constexpr std::size_t kMostTransfers = 1024;  // open at once: each has a helper in its sandbox

session::PoolSettings pool_of(const Config& config) {
  session::PoolSettings settings;
  settings.size = config.pool_size;
  settings.minimum = config.min_pool_size;
  settings.capacity = config.max_pool_size;
  settings.refill_delay = config.pool_refill_delay;
  settings.sweep = config.cleanup_interval;
  if (config.aggressive_cleanup) settings.idle = config.pool_idle;
  settings.environment = config.environment;
  settings.limits = config.limits;
  return settings;
}

}  // namespace

Core::Core(asio::io_context& loop, const Config& the_config, const policy::Policies& the_policies)
    : config(the_config),
      policies(the_policies),
      events(metrics, the_config.log_commands),
      provider(loop.get_executor(), the_config.state_dir, the_config.output),
      sessions(loop.get_executor(), {provider, store, events, the_policies},
               {pool_of(the_config), the_config.policy}) {
  provider.on_lost([this](bool) { lost_ = true; });
}

awaitable<void> Core::open() {
  jail::Welcome welcome = co_await provider.hello();
  barriers = std::move(welcome.barriers);
  co_await sessions.open();
}

awaitable<void> Core::close() {
  transfers_.clear();
  co_await sessions.close();
  co_await store.close();
  co_await provider.close();
}

std::shared_ptr<Transfer> Core::transfer(std::uint64_t handle) const {
  const auto found = transfers_.find(handle);
  if (found == transfers_.end()) throw Error{Code::unavailable, "the transfer was broken off"};
  return found->second;
}

std::uint64_t Core::add(std::shared_ptr<Transfer> transfer) {
  if (transfers_.size() >= kMostTransfers) {
    throw Error{Code::exhausted, "1024 files are open already: read or close some of them"};
  }
  transfers_[next_transfer_] = std::move(transfer);
  return next_transfer_++;
}

}  // namespace tb::embed
