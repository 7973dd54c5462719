// SPDX-License-Identifier: Apache-2.0
#include "session/memory_store.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace tb::session {

std::vector<StoredSession> MemoryStore::sessions() {
  std::vector<const Row*> rows;
  for (const auto& [id, row] : rows_) rows.push_back(&row);
  std::sort(rows.begin(), rows.end(), [](const Row* a, const Row* b) {
    return std::tie(a->session.created, a->number) < std::tie(b->session.created, b->number);
  });
  std::vector<StoredSession> result;
  for (const Row* row : rows) result.push_back(row->session);
  return result;
}

awaitable<void> MemoryStore::put(StoredSession session) {
  if (closed_) throw Error{Code::unavailable, "the store is closed"};
  if (!session.thread.empty()) {
    const auto holder = threads_.find(thread_key(session.tenant, session.thread));
    if (holder != threads_.end() && holder->second != session.id) {
      throw Error{Code::conflict, "the thread of session " + session.id + " has another session"};
    }
  }
  const auto [row, added] = rows_.try_emplace(session.id, Row{next_row_, {}});
  if (added) ++next_row_;
  const StoredSession& before = row->second.session;
  threads_.erase(thread_key(before.tenant, before.thread));
  if (!session.thread.empty()) threads_[thread_key(session.tenant, session.thread)] = session.id;
  row->second.session = std::move(session);
  co_return;
}

void MemoryStore::touch(std::string id, WallTime last_activity) {
  const auto row = rows_.find(id);
  if (row != rows_.end() && !closed_) row->second.session.last_activity = last_activity;
}

awaitable<void> MemoryStore::remove(std::string id) {
  if (closed_) throw Error{Code::unavailable, "the store is closed"};
  const auto row = rows_.find(id);
  if (row == rows_.end()) co_return;
  const StoredSession& gone = row->second.session;
  threads_.erase(thread_key(gone.tenant, gone.thread));
  rows_.erase(row);
}

void MemoryStore::record(Event event) {
  if (closed_) return;
  event.number = next_event_++;
  events_.push_back(std::move(event));
  if (events_.size() > max_events_) events_.pop_front();
}

awaitable<std::vector<Event>> MemoryStore::events(std::string session, std::size_t limit) {
  if (closed_) throw Error{Code::unavailable, "the store is closed"};
  std::vector<Event> found;
  for (auto event = events_.rbegin(); event != events_.rend() && found.size() < limit; ++event) {
    if (session.empty() || event->session == session) found.push_back(*event);
  }
  co_return found;
}

awaitable<void> MemoryStore::close() {
  closed_ = true;
  co_return;
}

}  // namespace tb::session
