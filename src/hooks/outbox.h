// SPDX-License-Identifier: Apache-2.0
// What is to be delivered, as it is kept: in a database, or in memory for as long as we live.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/async.h"
#include "base/units.h"

namespace tb::hooks {

using WallTime = std::chrono::system_clock::time_point;

// Waiting: what it tells of has not happened yet. Dead: nobody tries again by himself.
enum class State { waiting = 0, pending = 1, done = 2, dead = 3 };
std::string_view name_of(State state);
std::optional<State> find_state(std::string_view name);

struct Delivery {
  std::string id;  // the same in every attempt
  State state = State::pending;
  std::string type;  // process.ended, session.created, …
  std::string url;
  std::string tenant;   // whose it is; empty: the default one's
  std::string webhook;  // that asked for it; empty: a process did, by its notify_url
  // Of the webhook's events, for its row: this one's number, and the time up to which all of them
  // are kept (zero: as before).
  std::uint64_t sequence = 0;
  WallTime told = {};
  std::string session;
  std::string thread;
  std::uint32_t process = 0;
  std::string body;
  std::uint64_t size = 0;  // of the body, also where that is left out
  unsigned attempts = 0;
  unsigned failures = 0;  // since it was last asked for: how far the schedule is used up
  WallTime created;
  WallTime next;   // pending: not before
  WallTime ended;  // done or dead: since
  int status = 0;  // of the last answer
  std::string error;
};

// Somebody who wants to be told of what happens.
struct Webhook {
  std::string id;
  std::string tenant;
  std::string url;
  std::vector<std::string> events;  // names; empty: all
  std::string secret;               // whsec_…, as Secrets keeps it (hooks/signing.h)
  std::string description;
  bool active = true;
  WallTime created;
  WallTime told;  // when the last of its events happened that is kept: all before it were, too
  std::uint64_t sequence = 0;  // of that one
};

// Which deliveries are meant.
struct Filter {
  std::optional<std::string> tenant = {};   // empty: any
  std::optional<std::string> webhook = {};  // empty: any
  WallTime since = {};                      // not created before
};

// How much of what is over is kept, of each webhook, and of each tenant's callbacks.
struct Kept {
  std::size_t count = 1000;
  Bytes bytes = 64_MiB;
  std::chrono::hours age{24 * 7};
};

// Used from the loop's thread only. Throws Error{unavailable} when the disk does not take or give.
class Outbox {
 public:
  virtual ~Outbox() = default;

  // Adds it, or replaces one with this id that is waiting; any other stays as it is. Returns, once
  // a crash can't lose it, in which state one with this id was.
  virtual awaitable<std::optional<State>> put_delivery(Delivery delivery) = 0;
  // All of them or none; moves `told` and `sequence` of their webhooks on.
  virtual awaitable<std::vector<std::optional<State>>> put_deliveries(
      std::vector<Delivery> deliveries) = 0;
  // All of it but its body; one that was removed stays removed.
  virtual awaitable<void> save_delivery(Delivery delivery) = 0;
  virtual awaitable<std::optional<Delivery>> find_delivery(std::string id) = 0;
  // Without bodies, the newest first.
  virtual awaitable<std::vector<Delivery>> deliveries(State state, std::size_t limit,
                                                      Filter filter) = 0;
  awaitable<std::vector<Delivery>> deliveries(State state, std::size_t limit) {
    return deliveries(state, limit, Filter{});
  }
  // False: there was none.
  virtual awaitable<bool> remove_delivery(std::string id) = 0;
  // Forgets the oldest in this state that are too many, too large or too old.
  virtual awaitable<void> trim_deliveries(State state, Kept kept, WallTime now) = 0;

  // In the order of their creation.
  virtual awaitable<std::vector<Webhook>> webhooks() = 0;
  // Adds it, or changes the one with this id, of which `told` and `sequence` stay.
  virtual awaitable<void> put_webhook(Webhook webhook) = 0;
  // With all its deliveries.
  virtual awaitable<void> remove_webhook(std::string id) = 0;
};

// Ends with the process.
class MemoryOutbox : public Outbox {
 public:
  using Outbox::deliveries;
  awaitable<std::optional<State>> put_delivery(Delivery delivery) override;
  awaitable<std::vector<std::optional<State>>> put_deliveries(
      std::vector<Delivery> deliveries) override;
  awaitable<void> save_delivery(Delivery delivery) override;
  awaitable<std::optional<Delivery>> find_delivery(std::string id) override;
  awaitable<std::vector<Delivery>> deliveries(State state, std::size_t limit,
                                              Filter filter) override;
  awaitable<bool> remove_delivery(std::string id) override;
  awaitable<void> trim_deliveries(State state, Kept kept, WallTime now) override;
  awaitable<std::vector<Webhook>> webhooks() override;
  awaitable<void> put_webhook(Webhook webhook) override;
  awaitable<void> remove_webhook(std::string id) override;

 private:
  std::optional<State> put(Delivery delivery);

  std::vector<Delivery> rows_;  // in the order of their arrival
  std::vector<Webhook> webhooks_;
};

}  // namespace tb::hooks
