// SPDX-License-Identifier: Apache-2.0
// Sandboxes made ahead, so that a new session does not wait for one. A used one is never handed on.
#pragma once

#include <deque>
#include <memory>

#include "base/async.h"
#include "sandbox/sandbox.h"
#include "session/metrics.h"

namespace tb::session {

struct PoolSettings {
  std::size_t size = 10;      // kept ready
  std::size_t capacity = 80;  // ready and in use together
  std::string environment = "host";
  sandbox::Limits limits;
};

class Pool {
 public:
  // Without `metrics` nobody counts.
  Pool(asio::any_io_executor executor, sandbox::Provider& provider, PoolSettings settings,
       Metrics* metrics = nullptr);

  // Begins to fill it in the background.
  void open();
  awaitable<void> close();

  // A fresh sandbox: a ready one, or one made now. Throws Error{exhausted} at the capacity.
  awaitable<std::shared_ptr<sandbox::Sandbox>> take();
  // One that take() gave is gone.
  void gone();
  // A ready one of an earlier server, or one in use.
  void add_ready(std::shared_ptr<sandbox::Sandbox> sandbox) {
    ready_.push_back(std::move(sandbox));
  }
  void count_used() { ++used_; }
  // A place for one that comes back. Throws Error{exhausted} at the capacity.
  void reserve();
  // A ready one that ended by itself.
  bool drop(const std::string& id);

  std::size_t ready() const { return ready_.size(); }
  std::size_t used() const { return used_; }
  const PoolSettings& settings() const { return settings_; }

 private:
  std::shared_ptr<sandbox::Sandbox> take_ready();
  awaitable<void> refill();
  awaitable<std::shared_ptr<sandbox::Sandbox>> make();

  sandbox::Provider& provider_;
  PoolSettings settings_;
  Metrics* metrics_;
  Signal wanted_;  // there may be something to refill
  Signal made_;    // a creation in the background is over
  std::deque<std::shared_ptr<sandbox::Sandbox>> ready_;
  std::size_t used_ = 0;
  std::size_t making_ = 0;
  TaskGroup tasks_;
};

}  // namespace tb::session
