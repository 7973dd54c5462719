// SPDX-License-Identifier: Apache-2.0
#include "store/outbox_table.h"

#include <algorithm>
#include <limits>

namespace tb::store {
namespace {

using hooks::Delivery;
using hooks::State;

std::int64_t number_of(State state) { return static_cast<std::int64_t>(state); }

// A damaged number must not become a state that there is not.
State state_of(std::int64_t number) {
  return static_cast<State>(std::clamp<std::int64_t>(number, 0, number_of(State::dead)));
}

Delivery read(const Statement& row) {
  Delivery delivery;
  delivery.id = row.text(0);
  delivery.state = state_of(row.number(1));
  delivery.type = row.text(2);
  delivery.url = row.text(3);
  delivery.session = row.text(4);
  delivery.thread = row.text(5);
  delivery.process = static_cast<std::uint32_t>(row.number(6));
  delivery.attempts = static_cast<unsigned>(row.number(7));
  delivery.failures = static_cast<unsigned>(row.number(8));
  delivery.created = to_time(row.number(9));
  delivery.next = to_time(row.number(10));
  delivery.ended = to_time(row.number(11));
  delivery.status = static_cast<int>(row.number(12));
  delivery.error = row.text(13);
  delivery.body = row.text(14);
  return delivery;
}

}  // namespace

OutboxTable::OutboxTable(Connection& connection)
    : put_(connection,
           "INSERT INTO deliveries (id, state, type, url, session, thread, process, attempts, "
           "failures, created_ms, next_ms, ended_ms, status, error, size, body) "
           "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) "
           "ON CONFLICT (id) DO UPDATE SET state = ?2, url = ?4, attempts = ?8, failures = ?9, "
           "created_ms = ?10, next_ms = ?11, ended_ms = ?12, status = ?13, error = ?14, "
           "size = ?15, body = ?16 WHERE state = 0"),
      save_(connection,
            "UPDATE deliveries SET state = ?2, attempts = ?3, failures = ?4, next_ms = ?5, "
            "ended_ms = ?6, status = ?7, error = ?8 WHERE id = ?1"),
      find_(connection,
            "SELECT id, state, type, url, session, thread, process, attempts, failures, "
            "created_ms, next_ms, ended_ms, status, error, body FROM deliveries WHERE id = ?1"),
      list_(connection,
            "SELECT id, state, type, url, session, thread, process, attempts, failures, "
            "created_ms, next_ms, ended_ms, status, error, '' FROM deliveries WHERE state = ?1 "
            "ORDER BY number DESC LIMIT ?2"),
      remove_(connection, "DELETE FROM deliveries WHERE id = ?1 RETURNING id"),
      trim_(connection,
            "DELETE FROM deliveries WHERE state = ?1 AND (ended_ms < ?4 OR number IN "
            "(SELECT number FROM (SELECT number, "
            "row_number() OVER (ORDER BY ended_ms DESC, number DESC) AS place, "
            "sum(size) OVER (ORDER BY ended_ms DESC, number DESC) AS total "
            "FROM deliveries WHERE state = ?1) WHERE place > ?2 OR total > ?3))") {}

std::optional<State> OutboxTable::put(const Delivery& delivery) {
  std::optional<State> before;
  find_.bind(delivery.id);
  while (find_.step()) before = state_of(find_.number(1));
  put_.bind(delivery.id, number_of(delivery.state), delivery.type, delivery.url, delivery.session,
            delivery.thread, std::int64_t{delivery.process}, std::int64_t{delivery.attempts},
            std::int64_t{delivery.failures}, to_number(delivery.created), to_number(delivery.next),
            to_number(delivery.ended), std::int64_t{delivery.status}, delivery.error,
            static_cast<std::int64_t>(delivery.body.size()), delivery.body)
      .run();
  return before;
}

void OutboxTable::save(const Delivery& delivery) {
  save_
      .bind(delivery.id, number_of(delivery.state), std::int64_t{delivery.attempts},
            std::int64_t{delivery.failures}, to_number(delivery.next), to_number(delivery.ended),
            std::int64_t{delivery.status}, delivery.error)
      .run();
}

std::optional<Delivery> OutboxTable::find(const std::string& id) {
  std::optional<Delivery> found;
  find_.bind(id);
  while (find_.step()) found = read(find_);
  return found;
}

std::vector<Delivery> OutboxTable::list(State state, std::size_t limit) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  list_.bind(number_of(state), static_cast<std::int64_t>(std::min(limit, kMost)));
  std::vector<Delivery> rows;
  while (list_.step()) rows.push_back(read(list_));
  return rows;
}

bool OutboxTable::remove(const std::string& id) {
  bool found = false;
  remove_.bind(id);
  while (remove_.step()) found = true;
  return found;
}

void OutboxTable::trim(State state, const hooks::Kept& kept, hooks::WallTime now) {
  trim_
      .bind(number_of(state), static_cast<std::int64_t>(kept.count),
            static_cast<std::int64_t>(kept.bytes.count), to_number(now - kept.age))
      .run();
}

}  // namespace tb::store
