// SPDX-License-Identifier: Apache-2.0
#include "hooks/outbox.h"

#include <algorithm>
#include <map>

namespace tb::hooks {
namespace {

constexpr std::string_view kNames[] = {"waiting", "pending", "done", "dead"};

auto find(std::vector<Delivery>& rows, const std::string& id) {
  return std::find_if(rows.begin(), rows.end(), [&](const Delivery& row) { return row.id == id; });
}

}  // namespace

std::string_view name_of(State state) { return kNames[static_cast<std::size_t>(state)]; }

std::optional<State> find_state(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<State>(i);
  }
  return std::nullopt;
}

std::optional<State> MemoryOutbox::put(Delivery delivery) {
  for (Webhook& webhook : webhooks_) {
    if (webhook.id != delivery.webhook) continue;
    webhook.told = std::max(webhook.told, delivery.told);
    webhook.sequence = std::max(webhook.sequence, delivery.sequence);
  }
  delivery.size = delivery.body.size();
  const auto row = find(rows_, delivery.id);
  if (row == rows_.end()) {
    rows_.push_back(std::move(delivery));
    return std::nullopt;
  }
  const State before = row->state;
  if (before == State::waiting) *row = std::move(delivery);
  return before;
}

awaitable<std::optional<State>> MemoryOutbox::put_delivery(Delivery delivery) {
  co_return put(std::move(delivery));
}

awaitable<std::vector<std::optional<State>>> MemoryOutbox::put_deliveries(
    std::vector<Delivery> deliveries) {
  std::vector<std::optional<State>> before;
  for (Delivery& delivery : deliveries) before.push_back(put(std::move(delivery)));
  co_return before;
}

awaitable<void> MemoryOutbox::save_delivery(Delivery delivery) {
  const auto row = find(rows_, delivery.id);
  if (row == rows_.end()) co_return;
  delivery.body = std::move(row->body);
  *row = std::move(delivery);
}

awaitable<std::optional<Delivery>> MemoryOutbox::find_delivery(std::string id) {
  const auto row = find(rows_, id);
  if (row == rows_.end()) co_return std::nullopt;
  co_return *row;
}

awaitable<std::vector<Delivery>> MemoryOutbox::deliveries(State state, std::size_t limit,
                                                          Filter filter) {
  std::vector<Delivery> list;
  for (auto row = rows_.rbegin(); row != rows_.rend() && list.size() < limit; ++row) {
    if (row->state != state || row->created < filter.since) continue;
    if (filter.tenant && row->tenant != *filter.tenant) continue;
    if (filter.webhook && row->webhook != *filter.webhook) continue;
    list.push_back(*row);
    list.back().body.clear();
  }
  co_return list;
}

awaitable<bool> MemoryOutbox::remove_delivery(std::string id) {
  const auto row = find(rows_, id);
  if (row == rows_.end()) co_return false;
  rows_.erase(row);
  co_return true;
}

awaitable<void> MemoryOutbox::trim_deliveries(State state, Kept kept, WallTime now) {
  std::vector<const Delivery*> over;
  for (const Delivery& row : rows_) {
    if (row.state == state) over.push_back(&row);
  }
  std::stable_sort(over.begin(), over.end(),
                   [](const Delivery* a, const Delivery* b) { return a->ended > b->ended; });
  std::vector<std::string> gone;
  struct Total {
    std::size_t count = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::pair<std::string, std::string>, Total> totals;
  for (const Delivery* row : over) {
    Total& total = totals[{row->tenant, row->webhook}];
    total.bytes += row->body.size();
    const bool old = row->ended < now - kept.age;
    if (++total.count > kept.count || total.bytes > kept.bytes.count || old) {
      gone.push_back(row->id);
    }
  }
  for (const std::string& id : gone) rows_.erase(find(rows_, id));
  co_return;
}

awaitable<std::vector<Webhook>> MemoryOutbox::webhooks() { co_return webhooks_; }

awaitable<void> MemoryOutbox::put_webhook(Webhook webhook) {
  for (Webhook& row : webhooks_) {
    if (row.id != webhook.id) continue;
    webhook.told = row.told;
    webhook.sequence = row.sequence;
    row = std::move(webhook);
    co_return;
  }
  webhooks_.push_back(std::move(webhook));
}

awaitable<void> MemoryOutbox::remove_webhook(std::string id) {
  std::erase_if(webhooks_, [&](const Webhook& row) { return row.id == id; });
  std::erase_if(rows_, [&](const Delivery& row) { return row.webhook == id; });
  co_return;
}

}  // namespace tb::hooks
