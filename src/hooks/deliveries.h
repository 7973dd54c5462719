// SPDX-License-Identifier: Apache-2.0
// The queue of what is to be delivered: tried until it arrives or there is no hope, at least once
// each, always under the same id. What waits is on disk; in memory there are only its id and host.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/async.h"
#include "hooks/backoff.h"
#include "hooks/outbox.h"
#include "hooks/sender.h"
#include "hooks/turns.h"
#include "session/metrics.h"

namespace tb::hooks {

class Deliveries {
 public:
  using Send = std::function<awaitable<Attempt>(Delivery delivery)>;
  struct Settings {
    Schedule schedule = usual_schedule();
    // What is pending beyond these is dead at once. Two queues: what any process may ask for takes
    // no room and no turn from what somebody subscribed to.
    Turns::Limits callbacks = {};
    Turns::Limits events = {.bytes = 64_MiB};
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
  // The same for many, in one write.
  awaitable<void> enqueue_all(std::vector<Delivery> deliveries);

  // What it waited for will never be told by who knows: sends what `change` makes of its body.
  awaitable<void> give_up_waiting(std::string id,
                                  std::function<std::string(const std::string&)> change);

  awaitable<std::vector<Delivery>> list(State state, std::size_t limit, Filter filter);
  awaitable<std::vector<Delivery>> list(State state, std::size_t limit) {
    return list(state, limit, Filter{});
  }
  // Without its body. Throws Error{not_found}.
  awaitable<Delivery> get(std::string id);
  // Tries it again from the beginning, whatever became of it. Throws Error{not_found}, or
  // Error{conflict} for one whose time has not come, or Error{exhausted} when there is no room.
  awaitable<Delivery> replay(std::string id);
  // Throws Error{not_found}.
  awaitable<void> remove(std::string id);
  // What waits for its turn there is no longer tried: its webhook is gone.
  void drop_webhook(const std::string& webhook);
  // One attempt right now that nobody keeps.
  awaitable<Attempt> try_now(Delivery delivery) { return send_(std::move(delivery)); }

  std::size_t pending() const { return callbacks_.size() + events_.size(); }
  // Starts what is due. Done by itself; for tests with a clock of their own.
  void look();

 private:
  Turns& turns_of(const Delivery& delivery) {
    return delivery.webhook.empty() ? callbacks_ : events_;
  }
  void schedule(const Delivery& delivery, WallTime when);
  std::vector<std::size_t> admit(std::vector<Delivery>& deliveries);
  void launch(Turns& turns);
  awaitable<void> run();
  Milliseconds until_next() const;
  awaitable<void> attempt(Turns& turns, Turns::Item item);
  // When to try again; empty: never.
  awaitable<std::optional<WallTime>> try_once(std::string id);
  void judge(Delivery& delivery, const Attempt& attempt);
  void bury(Delivery& delivery, WallTime now);
  awaitable<void> trim();
  awaitable<void> tidy();

  Outbox& outbox_;
  Send send_;
  session::Metrics& metrics_;
  Settings settings_;
  Turns callbacks_;
  Turns events_;
  unsigned ended_ = 0;  // since the last tidying
  bool poked_ = false;
  Signal wake_;
  TaskGroup tasks_;
};

}  // namespace tb::hooks
