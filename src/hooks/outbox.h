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
  std::string type;  // process.ended
  std::string url;
  std::string session;
  std::string thread;
  std::uint32_t process = 0;
  std::string body;
  unsigned attempts = 0;
  unsigned failures = 0;  // since it was last asked for: how far the schedule is used up
  WallTime created;
  WallTime next;   // pending: not before
  WallTime ended;  // done or dead: since
  int status = 0;  // of the last answer
  std::string error;
};

// How much of what is over is kept.
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
  // All of it but its body; one that was removed stays removed.
  virtual awaitable<void> save_delivery(Delivery delivery) = 0;
  virtual awaitable<std::optional<Delivery>> find_delivery(std::string id) = 0;
  // Without bodies, the newest first.
  virtual awaitable<std::vector<Delivery>> deliveries(State state, std::size_t limit) = 0;
  // False: there was none.
  virtual awaitable<bool> remove_delivery(std::string id) = 0;
  // Forgets the oldest in this state that are too many, too large or too old.
  virtual awaitable<void> trim_deliveries(State state, Kept kept, WallTime now) = 0;
};

// Ends with the process.
class MemoryOutbox : public Outbox {
 public:
  awaitable<std::optional<State>> put_delivery(Delivery delivery) override;
  awaitable<void> save_delivery(Delivery delivery) override;
  awaitable<std::optional<Delivery>> find_delivery(std::string id) override;
  awaitable<std::vector<Delivery>> deliveries(State state, std::size_t limit) override;
  awaitable<bool> remove_delivery(std::string id) override;
  awaitable<void> trim_deliveries(State state, Kept kept, WallTime now) override;

 private:
  std::vector<Delivery> rows_;  // in the order of their arrival
};

}  // namespace tb::hooks
