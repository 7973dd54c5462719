// SPDX-License-Identifier: Apache-2.0
// What is to be delivered, as rows of the database; every call may wait for the disk.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hooks/outbox.h"
#include "store/sqlite.h"

namespace tb::store {

class OutboxTable {
 public:
  explicit OutboxTable(Connection& connection);

  // As hooks::Outbox has them.
  std::optional<hooks::State> put(const hooks::Delivery& delivery);
  void save(const hooks::Delivery& delivery);
  std::optional<hooks::Delivery> find(const std::string& id);
  std::vector<hooks::Delivery> list(hooks::State state, std::size_t limit,
                                    const hooks::Filter& filter);
  bool remove(const std::string& id);
  void trim(hooks::State state, const hooks::Kept& kept, hooks::WallTime now);

 private:
  Statement put_, state_, save_, find_, list_, remove_, trim_, told_;
};

class WebhooksTable {
 public:
  explicit WebhooksTable(Connection& connection);

  std::vector<hooks::Webhook> list();
  void put(const hooks::Webhook& webhook);
  void remove(const std::string& id);

 private:
  Statement list_, put_, remove_, forget_;
};

}  // namespace tb::store
