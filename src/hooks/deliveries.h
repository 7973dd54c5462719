// SPDX-License-Identifier: Apache-2.0
// The queue of what is to be delivered: tried until it arrives or there is no hope, at least once
// each, always under the same id. What waits is on disk; in memory there are only its id and host.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/async.h"
#include "hooks/backoff.h"
#include "hooks/outbox.h"
#include "hooks/sender.h"
#include "session/metrics.h"

namespace tb::hooks {

class Deliveries {
 public:
  using Send = std::function<awaitable<Attempt>(Delivery delivery)>;
  struct Settings {
    Schedule schedule = usual_schedule();
    std::size_t at_once = 16;
    std::size_t per_host = 4;  // of these; a slow receiver keeps no other one waiting
    // Pending at a time; what comes beyond is dead at once. A host has as many at most as are left
    // free: one that is down for hours takes half of it, and there is room for every other.
    std::size_t queue = 10'000;
    Kept done = {.age = std::chrono::hours{24}};
    Kept dead = {};
    std::function<WallTime()> now = [] { return std::chrono::system_clock::now(); };
    std::function<double()> chance = {};  // 0 to 1; empty: random
  };
  Deliveries(asio::any_io_executor executor, Outbox& outbox, Send send, session::Metrics& metrics,
             Settings settings);

  // Takes up what an earlier server left.
  awaitable<void> open();
  // Attempts under way are given up; they are made again by the next server.
  awaitable<void> close();

  // Remembers one whose time has not come. Returns in which state one with its id was.
  awaitable<std::optional<State>> expect(Delivery delivery);
  // Returns once a crash can't lose it. One with this id that was there already is not sent again.
  awaitable<void> enqueue(Delivery delivery);

  // What it waited for will never be told by who knows: sends what `change` makes of its body.
  awaitable<void> give_up_waiting(std::string id,
                                  std::function<std::string(const std::string&)> change);

  awaitable<std::vector<Delivery>> list(State state, std::size_t limit);
  // Tries it again from the beginning, whatever became of it. Throws Error{not_found}, or
  // Error{conflict} for one whose time has not come.
  awaitable<Delivery> replay(std::string id);
  // Throws Error{not_found}.
  awaitable<void> remove(std::string id);

  std::size_t pending() const { return pending_; }
  // Starts what is due. Done by itself; for tests with a clock of their own.
  void look();

 private:
  using Place = std::pair<WallTime, std::string>;  // when, and the id
  struct Host {
    std::set<Place> waiting;
    std::size_t running = 0;
  };
  void schedule(const std::string& id, const std::string& url, WallTime when);
  void unschedule(const std::string& id);
  bool has_room(const std::string& url) const;
  bool launch_one(Host& host, const std::string& name, WallTime now);
  awaitable<void> run();
  Milliseconds until_next() const;
  awaitable<void> attempt(std::string id, std::string host);
  awaitable<void> try_once(std::string id);
  void judge(Delivery& delivery, const Attempt& attempt);
  awaitable<void> tidy();

  Outbox& outbox_;
  Send send_;
  session::Metrics& metrics_;
  Settings settings_;
  std::map<std::string, Host> hosts_;
  std::unordered_map<std::string, std::pair<std::string, WallTime>> places_;  // host and time
  std::string last_host_;                                                     // whose turn it was
  std::unordered_set<std::string> running_;
  std::size_t pending_ = 0;  // running ones too
  unsigned ended_ = 0;       // since the last tidying
  bool poked_ = false;
  Signal wake_;
  TaskGroup tasks_;
};

}  // namespace tb::hooks
