// SPDX-License-Identifier: Apache-2.0
// Who wants to be told of what happens to sessions, and the way of what happens into the queue. An
// event is on disk before the request that caused it is answered; what happened without a server is
// found by the next one. So each arrives at least once, under the same id.
#pragma once

#include <bitset>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "hooks/deliveries.h"
#include "net/url.h"
#include "session/listener.h"

namespace tb::hooks {

inline constexpr std::string_view kTestEvent = "webhook.test";

class Webhooks : public session::Listener {
 public:
  struct Settings {
    net::AddressRules rules = {};
    std::size_t per_tenant = 64;
    std::size_t in_all = 4096;
    // Of what waits for the disk; what comes beyond is lost, which is counted and logged.
    std::size_t queue = 10'000;
    Bytes bytes = 32_MiB;
    Milliseconds retry = 1s;        // after a disk that did not take it
    Milliseconds patience = 2s;     // of answers with the disk
    std::size_t tests_at_once = 4;  // of a tenant
    std::function<WallTime()> now = [] { return std::chrono::system_clock::now(); };
  };
  Webhooks(asio::any_io_executor executor, Outbox& outbox, Deliveries& deliveries,
           session::Metrics& metrics, Settings settings);

  // Before anything happens.
  awaitable<void> open();
  // Writes what waits, unless the disk takes too long.
  awaitable<void> close();

  bool wants(session::Happening what) const override {
    return wanted_[static_cast<std::size_t>(what)];
  }
  void happened(const session::Told& told) override;
  // Something was told that a crash would lose.
  bool unsettled() const { return stored_ != told_ && !failing_; }
  // Until a crash can't; at most for the patience.
  awaitable<void> settle();

  // `like` has all but id, secret (empty: one is made) and times. Throws Error{invalid} for an
  // address that nothing is sent to, Error{conflict} when there are too many.
  awaitable<Webhook> create(Webhook like);
  std::vector<Webhook> list(const std::string& tenant) const;
  // Throws Error{not_found}, also for another tenant's.
  Webhook get(const std::string& tenant, const std::string& id) const;
  // Whose ever it is. Null: there is none.
  const Webhook* find(const std::string& id) const;
  // Url, events, description and active; with `secret` also that, if it is empty to one that is
  // made.
  awaitable<Webhook> change(Webhook webhook, std::optional<std::string> secret = {});
  // With what was to be delivered to it.
  awaitable<void> remove(std::string tenant, std::string id);
  // One attempt, now.
  awaitable<Attempt> test(std::string tenant, std::string id);
  struct Replayed {
    std::size_t count = 0;
    bool all = true;  // false: there is no room for more
  };
  // The dead of it since then, and with `done` those that arrived, too; the oldest first.
  awaitable<Replayed> replay(std::string tenant, std::string id, WallTime since, bool done);

 private:
  void check(const Webhook& webhook) const;
  void note_wanted();
  Delivery make(const Webhook& webhook, const session::Told& told, const std::string& event);
  void push(Delivery delivery);
  void lose();
  awaitable<void> pump();
  awaitable<bool> store(const std::vector<Delivery>& batch);

  Outbox& outbox_;
  Deliveries& deliveries_;
  session::Metrics& metrics_;
  Settings settings_;
  std::vector<Webhook> webhooks_;  // in the order of their creation
  std::bitset<session::kHappeningNames.size()> wanted_;
  std::deque<Delivery> buffer_;
  std::uint64_t buffered_ = 0;  // bytes
  std::uint64_t told_ = 0;      // deliveries, ever
  std::uint64_t stored_ = 0;    // of these, or given up
  std::uint64_t lost_ = 0;
  bool failing_ = false;
  std::map<std::string, std::size_t> testing_;  // by tenant
  std::map<std::string, std::size_t> making_;   // webhooks that are being written down
  Signal wake_;
  Signal done_;
  TaskGroup tasks_;
};

}  // namespace tb::hooks
