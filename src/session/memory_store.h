// SPDX-License-Identifier: Apache-2.0
// A store that ends with the process.
#pragma once

#include <deque>
#include <unordered_map>

#include "session/store.h"

namespace tb::session {

class MemoryStore : public Store {
 public:
  explicit MemoryStore(std::size_t max_events = 100'000) : max_events_(max_events) {}

  std::vector<StoredSession> sessions() override;
  awaitable<void> put(StoredSession session) override;
  void touch(std::string id, WallTime last_activity) override;
  awaitable<void> remove(std::string id) override;
  void record(Event event) override;
  awaitable<std::vector<Event>> events(std::string session, std::size_t limit) override;
  awaitable<void> close() override;
  std::string problem() const override { return {}; }

 private:
  struct Row {
    std::uint64_t number;  // tells apart what was created in the same millisecond
    StoredSession session;
  };

  std::size_t max_events_;
  std::uint64_t next_row_ = 1;
  std::int64_t next_event_ = 1;
  bool closed_ = false;
  std::unordered_map<std::string, Row> rows_;             // by id
  std::unordered_map<std::string, std::string> threads_;  // ids; no empty thread
  std::deque<Event> events_;
};

}  // namespace tb::session
