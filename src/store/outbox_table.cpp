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
  delivery.tenant = row.text(14);
  delivery.webhook = row.text(15);
  delivery.size = static_cast<std::uint64_t>(row.number(16));
  delivery.body = row.text(17);
  return delivery;
}

}  // namespace

OutboxTable::OutboxTable(Connection& connection)
    : put_(connection,
           "INSERT INTO deliveries (id, state, type, url, session, thread, process, attempts, "
           "failures, created_ms, next_ms, ended_ms, status, error, size, body, tenant, webhook) "
           "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, "
           "?18) "
           "ON CONFLICT (id) DO UPDATE SET state = ?2, url = ?4, attempts = ?8, failures = ?9, "
           "created_ms = ?10, next_ms = ?11, ended_ms = ?12, status = ?13, error = ?14, "
           "size = ?15, body = ?16 WHERE state = 0"),
      state_(connection, "SELECT state FROM deliveries WHERE id = ?1"),
      save_(connection,
            "UPDATE deliveries SET state = ?2, attempts = ?3, failures = ?4, next_ms = ?5, "
            "ended_ms = ?6, status = ?7, error = ?8 WHERE id = ?1"),
      find_(connection,
            "SELECT id, state, type, url, session, thread, process, attempts, failures, "
            "created_ms, next_ms, ended_ms, status, error, tenant, webhook, size, body "
            "FROM deliveries WHERE id = ?1"),
      list_(connection,
            "SELECT id, state, type, url, session, thread, process, attempts, failures, "
            "created_ms, next_ms, ended_ms, status, error, tenant, webhook, size, '' "
            "FROM deliveries WHERE state = ?1 AND created_ms >= ?3 AND (?4 = 0 OR tenant = ?5) "
            "AND (?6 = 0 OR webhook = ?7) ORDER BY number DESC LIMIT ?2"),
      remove_(connection, "DELETE FROM deliveries WHERE id = ?1 RETURNING id"),
      trim_(connection,
            "DELETE FROM deliveries WHERE state = ?1 AND (ended_ms < ?4 OR number IN "
            "(SELECT number FROM (SELECT number, "
            "row_number() OVER one AS place, sum(size) OVER one AS total "
            "FROM deliveries WHERE state = ?1 "
            "WINDOW one AS (PARTITION BY tenant, webhook ORDER BY ended_ms DESC, number DESC)) "
            "WHERE place > ?2 OR total > ?3))"),
      told_(connection,
            "UPDATE webhooks SET told_ms = max(told_ms, ?2), sequence = max(sequence, ?3) "
            "WHERE id = ?1") {}

std::optional<State> OutboxTable::put(const Delivery& delivery) {
  std::optional<State> before;
  state_.bind(delivery.id);
  while (state_.step()) before = state_of(state_.number(0));
  put_.bind(delivery.id, number_of(delivery.state), delivery.type, delivery.url, delivery.session,
            delivery.thread, std::int64_t{delivery.process}, std::int64_t{delivery.attempts},
            std::int64_t{delivery.failures}, to_number(delivery.created), to_number(delivery.next),
            to_number(delivery.ended), std::int64_t{delivery.status}, delivery.error,
            static_cast<std::int64_t>(delivery.body.size()), delivery.body, delivery.tenant,
            delivery.webhook)
      .run();
  if (!delivery.webhook.empty()) {
    told_
        .bind(delivery.webhook, to_number(delivery.told),
              static_cast<std::int64_t>(delivery.sequence))
        .run();
  }
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

std::vector<Delivery> OutboxTable::list(State state, std::size_t limit,
                                        const hooks::Filter& filter) {
  constexpr auto kMost = static_cast<std::size_t>(std::numeric_limits<std::int64_t>::max());
  list_.bind(number_of(state), static_cast<std::int64_t>(std::min(limit, kMost)),
             to_number(filter.since), std::int64_t{filter.tenant.has_value()},
             filter.tenant.value_or(""), std::int64_t{filter.webhook.has_value()},
             filter.webhook.value_or(""));
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

// ---- Webhooks. ----

namespace {

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    names.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

}  // namespace

WebhooksTable::WebhooksTable(Connection& connection)
    : list_(connection,
            "SELECT id, tenant, url, events, secret, description, active, created_ms, told_ms, "
            "sequence FROM webhooks ORDER BY number"),
      put_(connection,
           "INSERT INTO webhooks (id, tenant, url, events, secret, description, active, "
           "created_ms, told_ms, sequence) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) "
           "ON CONFLICT (id) DO UPDATE SET url = ?3, events = ?4, secret = ?5, description = ?6, "
           "active = ?7"),
      remove_(connection, "DELETE FROM webhooks WHERE id = ?1"),
      forget_(connection, "DELETE FROM deliveries WHERE webhook = ?1") {}

std::vector<hooks::Webhook> WebhooksTable::list() {
  std::vector<hooks::Webhook> rows;
  list_.bind();
  while (list_.step()) {
    hooks::Webhook& row = rows.emplace_back();
    row.id = list_.text(0);
    row.tenant = list_.text(1);
    row.url = list_.text(2);
    row.events = split(list_.text(3));
    row.secret = list_.text(4);
    row.description = list_.text(5);
    row.active = list_.number(6) != 0;
    row.created = to_time(list_.number(7));
    row.told = to_time(list_.number(8));
    row.sequence = static_cast<std::uint64_t>(list_.number(9));
  }
  return rows;
}

void WebhooksTable::put(const hooks::Webhook& webhook) {
  put_.bind(webhook.id, webhook.tenant, webhook.url, join(webhook.events), webhook.secret,
            webhook.description, std::int64_t{webhook.active}, to_number(webhook.created),
            to_number(webhook.told), static_cast<std::int64_t>(webhook.sequence))
      .run();
}

void WebhooksTable::remove(const std::string& id) {
  remove_.bind(id).run();
  forget_.bind(id).run();
}

}  // namespace tb::store
