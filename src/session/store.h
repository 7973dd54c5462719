// SPDX-License-Identifier: Apache-2.0
// What a server must know after a restart: sessions, whose thread each is, when it was last used,
// and what happened. Used from the loop's thread only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "base/async.h"
#include "base/units.h"
#include "sandbox/mounts.h"

namespace tb::session {

using WallTime = std::chrono::system_clock::time_point;

// Times are kept to the millisecond.
struct StoredSession {
  std::string id;
  std::string thread;  // empty: anonymous
  std::string user;
  std::string policy;
  Milliseconds idle{0};
  WallTime created;
  WallTime last_activity;
  std::string provider;
  std::string environment;  // names of the registry, or empty
  std::string agent;
  std::vector<sandbox::Mount> mounts = {};  // in its label alone: whoever keeps its files knows
  // Of its thread in a directory (session/directory.h); kept with the sandbox, not in the store.
  std::uint64_t claim = 0;
  std::string tenant = {};  // whose thread it is; empty: the default tenant's
  std::string key = {};     // of who asked for it; in its label alone, as the claim is
};

// What finds a thread's session: each tenant has threads of its own. No name has a NUL. An
// anonymous one has none.
inline std::string thread_key(const std::string& tenant, const std::string& thread) {
  return tenant.empty() || thread.empty() ? thread : tenant + '\0' + thread;
}

struct Event {
  std::int64_t number = 0;  // given by the store, growing
  WallTime at;
  std::string kind;
  std::string session;
  std::string thread;
  std::string user;
  std::string detail;  // JSON, or empty
};

class Store {
 public:
  virtual ~Store() = default;

  // In the order of their creation. May wait for the disk: meant for the start.
  virtual std::vector<StoredSession> sessions() = 0;
  // Adds a session, or replaces the one with this id; returns when a crash of this process can't
  // lose it. Throws Error{conflict} when its tenant's thread belongs to another id,
  // Error{unavailable} when it can't be written.
  virtual awaitable<void> put(StoredSession session) = 0;
  // Written soon; many in a row become one write. An unknown id is fine.
  virtual void touch(std::string id, WallTime last_activity) = 0;
  // Returns when a crash can't bring it back; an unknown id is fine. Throws Error{unavailable}:
  // then it is tried again, as long as this process lives.
  virtual awaitable<void> remove(std::string id) = 0;
  // Written soon, in order; the oldest are forgotten when there are too many.
  virtual void record(Event event) = 0;
  // The newest first, at most `limit`. An empty session: all.
  virtual awaitable<std::vector<Event>> events(std::string session, std::size_t limit) = 0;
  // Writes what waits; afterwards nothing can be stored.
  virtual awaitable<void> close() = 0;
  // Why the last write failed; empty: healthy.
  virtual std::string problem() const = 0;
};

}  // namespace tb::session
