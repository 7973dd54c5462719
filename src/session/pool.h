// SPDX-License-Identifier: Apache-2.0
// Sandboxes made ahead, so that a new session does not wait for one. A used one is never handed on.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/async.h"
#include "sandbox/sandbox.h"
#include "session/metrics.h"

namespace tb::session {

struct PoolSettings {
  std::size_t size = 10;      // kept ready
  std::size_t minimum = 0;    // of them at once, whatever happens; the others after the delay
  std::size_t capacity = 80;  // ready and in use together
  Milliseconds refill_delay{0};
  // Down to the minimum when no session was created for so long; 0: never.
  Milliseconds idle{0};
  Milliseconds sweep = 5min;  // how often that is looked at
  std::string environment = "host";
  sandbox::Limits limits;
  bool labelled = true;  // ready ones are for the next server; else they go with this one
  std::vector<std::string> programs;  // that ready ones are confined to; empty: any
};

class Pool {
 public:
  // Without `metrics` nobody counts.
  Pool(asio::any_io_executor executor, sandbox::Provider& provider, PoolSettings settings,
       Metrics* metrics = nullptr);

  // Begins to fill it in the background.
  void open();
  awaitable<void> close();

  // A fresh sandbox confined to `programs`: a ready one, or one made now. Throws Error{exhausted}
  // at the capacity.
  awaitable<std::shared_ptr<sandbox::Sandbox>> take(std::vector<std::string> programs);
  // Ready ones.
  awaitable<std::shared_ptr<sandbox::Sandbox>> take() { return take(settings_.programs); }
  sandbox::SandboxSpec spec_for(std::vector<std::string> programs) const;
  // Whether a ready sandbox of an earlier server, with this label, is what we would make today.
  bool would_make(const std::string& label) const { return label == label_; }
  const std::string& ready_label() const { return label_; }
  // One that take() gave is gone.
  void gone();
  // A ready one of an earlier server, or one in use.
  void add_ready(std::shared_ptr<sandbox::Sandbox> sandbox) {
    ready_.push_back(std::move(sandbox));
  }
  void count_used() { ++used_; }
  // A place for one that comes back. Throws Error{exhausted} at the capacity.
  void reserve();
  // A ready one goes if it has the place that was just reserved.
  awaitable<void> give_way();
  // A ready one that ended by itself.
  bool drop(const std::string& id);

  std::size_t ready() const { return ready_.size(); }
  std::size_t used() const { return used_; }
  const PoolSettings& settings() const { return settings_; }

 private:
  using Clock = std::chrono::steady_clock;
  std::shared_ptr<sandbox::Sandbox> take_ready();
  awaitable<std::shared_ptr<sandbox::Sandbox>> make_now(std::vector<std::string> programs);
  awaitable<void> tend();
  awaitable<void> make_ready();
  awaitable<void> remove_ready();
  std::size_t total() const { return ready_.size() + used_ + making_; }
  std::size_t wanted_now() const;
  bool lacks() const;
  bool exceeds() const;
  Milliseconds until_change() const;
  awaitable<std::shared_ptr<sandbox::Sandbox>> make(sandbox::SandboxSpec spec);

  sandbox::Provider& provider_;
  PoolSettings settings_;
  Metrics* metrics_;
  const std::string label_;  // of ready ones
  Signal wanted_;            // there may be something to refill
  Signal made_;              // a creation in the background is over
  std::deque<std::shared_ptr<sandbox::Sandbox>> ready_;
  std::size_t used_ = 0;
  std::size_t making_ = 0;
  Clock::time_point grow_at_{};  // from then on to the full size
  Clock::time_point last_taken_ = Clock::now();
  TaskGroup tasks_;
};

}  // namespace tb::session
