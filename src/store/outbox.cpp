// SPDX-License-Identifier: Apache-2.0
// What is to be delivered goes through the same thread and the same transactions as sessions do.
#include "store/sqlite_store.h"

namespace tb::store {

using hooks::Delivery;

awaitable<std::optional<hooks::State>> SqliteStore::put_delivery(Delivery delivery) {
  auto before = std::make_shared<std::optional<hooks::State>>();
  Work work = [before, delivery = std::move(delivery)](Tables& tables) {
    *before = tables.outbox().put(delivery);
  };
  co_await perform(false, std::move(work));
  co_return *before;
}

awaitable<void> SqliteStore::save_delivery(Delivery delivery) {
  delivery.body.clear();
  Work work = [delivery = std::move(delivery)](Tables& tables) { tables.outbox().save(delivery); };
  co_await perform(false, std::move(work));
}

awaitable<std::optional<Delivery>> SqliteStore::find_delivery(std::string id) {
  auto found = std::make_shared<std::optional<Delivery>>();
  Work work = [found, id = std::move(id)](Tables& tables) { *found = tables.outbox().find(id); };
  co_await perform(true, std::move(work));
  co_return std::move(*found);
}

awaitable<std::vector<std::optional<hooks::State>>> SqliteStore::put_deliveries(
    std::vector<Delivery> deliveries) {
  auto before = std::make_shared<std::vector<std::optional<hooks::State>>>();
  Work work = [before, deliveries = std::move(deliveries)](Tables& tables) {
    before->clear();  // it may be done again, with a fresh file
    for (const Delivery& delivery : deliveries) before->push_back(tables.outbox().put(delivery));
  };
  co_await perform(false, std::move(work));
  co_return std::move(*before);
}

awaitable<std::vector<Delivery>> SqliteStore::deliveries(hooks::State state, std::size_t limit,
                                                         hooks::Filter filter) {
  auto found = std::make_shared<std::vector<Delivery>>();
  Work work = [found, state, limit, filter = std::move(filter)](Tables& tables) {
    *found = tables.outbox().list(state, limit, filter);
  };
  co_await perform(true, std::move(work));
  co_return std::move(*found);
}

awaitable<bool> SqliteStore::remove_delivery(std::string id) {
  auto found = std::make_shared<bool>(false);
  Work work = [found, id = std::move(id)](Tables& tables) { *found = tables.outbox().remove(id); };
  co_await perform(false, std::move(work));
  co_return *found;
}

awaitable<void> SqliteStore::trim_deliveries(hooks::State state, hooks::Kept kept,
                                             hooks::WallTime now) {
  Work work = [=](Tables& tables) { tables.outbox().trim(state, kept, now); };
  co_await perform(false, std::move(work));
}

awaitable<std::vector<hooks::Webhook>> SqliteStore::webhooks() {
  auto found = std::make_shared<std::vector<hooks::Webhook>>();
  Work work = [found](Tables& tables) { *found = tables.webhooks().list(); };
  co_await perform(true, std::move(work));
  co_return std::move(*found);
}

awaitable<void> SqliteStore::put_webhook(hooks::Webhook webhook) {
  Work work = [webhook = std::move(webhook)](Tables& tables) { tables.webhooks().put(webhook); };
  co_await perform(false, std::move(work));
}

awaitable<void> SqliteStore::remove_webhook(std::string id) {
  Work work = [id = std::move(id)](Tables& tables) { tables.webhooks().remove(id); };
  co_await perform(false, std::move(work));
}

}  // namespace tb::store
