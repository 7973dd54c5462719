// SPDX-License-Identifier: Apache-2.0
// Sandboxes made ahead, so that a new session does not wait for one. A used one is never handed on.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/async.h"
#include "sandbox/sandbox.h"
#include "session/metrics.h"
#include "session/programs.h"
#include "session/providers.h"
#include "session/waiting_line.h"

namespace tb::session {

// What a sandbox is made as. Those of one kind can stand for each other.
struct Kind {
  std::string provider = kNative;
  std::string environment = "host";
  sandbox::Limits limits;
  Programs programs;
  bool network = false;
  std::vector<sandbox::Mount> mounts = {};
  std::vector<std::string> warm = {};  // languages whose interpreters wait in those that are ready
  bool operator==(const Kind&) const = default;
};

struct PoolSettings {
  std::size_t size = 10;      // kept ready
  std::size_t minimum = 0;    // of them at once, whatever happens; the others after the delay
  std::size_t capacity = 80;  // ready and in use together
  Milliseconds refill_delay{0};
  // Down to the minimum when no session was created for so long; 0: never.
  Milliseconds idle{0};
  Milliseconds sweep = 5min;   // how often that is looked at
  bool labelled = true;        // ready ones are for the next server; else they go with this one
  std::size_t waiting = 1000;  // for a place, at most
  Kind kind;                   // of those that are ready
  // Starts one of Kind::warm; null: nobody can.
  std::function<awaitable<void>(std::shared_ptr<sandbox::Sandbox>, std::string language)> warm;
};

// A kind of which so many are ready whatever happens, beside the others.
struct Stock {
  Kind kind;
  std::size_t size = 0;
};

class Pool {
 public:
  // Without `metrics` nobody counts.
  Pool(asio::any_io_executor executor, const Providers& providers, PoolSettings settings,
       Metrics* metrics = nullptr);

  // Begins to fill it in the background.
  void open();
  awaitable<void> close();

  // What is kept beside the settings' kind, in place of what was before.
  void keep(std::vector<Stock> stocks);

  // A fresh sandbox of this kind: a ready one, or one made now. At the capacity it waits for a
  // place as `patience` says; then, or without it at once, Error{exhausted} is thrown, or GaveUp.
  awaitable<std::shared_ptr<sandbox::Sandbox>> take(Kind kind,
                                                    std::shared_ptr<Patience> patience = nullptr);
  awaitable<std::shared_ptr<sandbox::Sandbox>> take() { return take(settings_.kind); }
  static sandbox::SandboxSpec spec_for(const Kind& kind);
  // Whether a ready sandbox of an earlier server, with this label, is what we would make today.
  bool would_make(const std::string& label) const;
  const std::string& ready_label() const { return shelves_.front().label; }
  // One that take() gave is gone.
  void gone();
  // A ready one of an earlier server, or one in use.
  void add_ready(std::shared_ptr<sandbox::Sandbox> sandbox);
  void count_used() { ++used_; }
  // A place for one that comes back. Throws Error{exhausted} at the capacity.
  void reserve();
  // A ready one goes if it has the place that was just reserved.
  awaitable<void> give_way();
  // A ready one that ended by itself.
  bool drop(const std::string& id);

  std::size_t ready() const;
  std::size_t ready(const Kind& kind) const;
  std::size_t used() const { return used_; }
  std::size_t waiting() const { return line_.size(); }
  const PoolSettings& settings() const { return settings_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Shelf {
    Kind kind;
    std::size_t size;
    std::string label;  // of those that are ready
    std::deque<std::shared_ptr<sandbox::Sandbox>> ready;
    Clock::time_point again{};  // after a failure
  };
  std::shared_ptr<sandbox::Sandbox> take_ready(const Kind& kind);
  awaitable<std::shared_ptr<sandbox::Sandbox>> make_reserved(Kind kind);
  awaitable<void> wait_for_place(std::shared_ptr<Patience> patience);
  void serve_line();
  void count_wait(Waited result);
  awaitable<void> tend();
  awaitable<void> make_ready(Kind kind, std::string label);
  awaitable<void> warm_up(std::shared_ptr<sandbox::Sandbox> sandbox, const Kind& kind);
  awaitable<void> remove_ready(Shelf& shelf);
  void put_on_shelf(const std::string& label, std::shared_ptr<sandbox::Sandbox> sandbox);
  std::size_t total() const { return ready() + used_ + making_; }
  bool unused() const;
  std::size_t wanted_now(const Shelf& shelf) const;
  Shelf* lacking();
  Shelf* exceeding();
  Milliseconds until_change() const;
  awaitable<std::shared_ptr<sandbox::Sandbox>> make(const Kind& kind, std::string label);

  const Providers& providers_;
  PoolSettings settings_;
  Metrics* metrics_;
  Signal wanted_;              // there may be something to refill
  Signal made_;                // a creation in the background is over
  std::deque<Shelf> shelves_;  // the first is the settings'
  std::size_t used_ = 0;
  std::size_t making_ = 0;
  Clock::time_point grow_at_{};  // from then on to the full size
  Clock::time_point last_taken_ = Clock::now();
  WaitingLine line_;
  TaskGroup tasks_;
};

}  // namespace tb::session
