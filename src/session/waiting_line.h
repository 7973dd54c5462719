// SPDX-License-Identifier: Apache-2.0
// Who waits for a place of the pool: tenants have their turns one after the other, and within a
// tenant who came first is first. However many one of them sends, another waits for one turn.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/async.h"
#include "base/error.h"
#include "base/units.h"

namespace tb::session {

// How long who asks for a session waits for a place, and whether it still does.
class Patience {
 public:
  Patience(std::string tenant, Milliseconds limit) : tenant_(std::move(tenant)), limit_(limit) {}
  const std::string& tenant() const { return tenant_; }
  Milliseconds limit() const { return limit_; }

  // Nobody is there for the answer any more.
  void give_up() {
    over_ = true;
    if (told_) told_();
  }
  bool over() const { return over_; }
  void on_give_up(std::function<void()> told) { told_ = std::move(told); }

 private:
  std::string tenant_;
  Milliseconds limit_;
  bool over_ = false;
  std::function<void()> told_;
};

// Who asked has left before there was a place.
class GaveUp : public Error {
 public:
  GaveUp() : Error(Code::unavailable, "Nobody waits for this session any more") {}
};

class WaitingLine {
 public:
  struct Ticket {
    Ticket(asio::any_io_executor executor, std::string whose)
        : tenant(std::move(whose)), woken(executor) {}
    std::string tenant;
    bool granted = false;  // its place was taken for it
    bool refused = false;  // it had to make room for another tenant
    Signal woken;
  };

  WaitingLine(asio::any_io_executor executor, std::size_t most)
      : executor_(executor), most_(most) {}

  // Null: there are too many, and this tenant has as many as anybody.
  std::shared_ptr<Ticket> join(const std::string& tenant);
  // Whoever was granted nothing.
  void leave(const std::shared_ptr<Ticket>& ticket);
  // Wakes the next one; false: there is none.
  bool grant();
  std::size_t size() const { return size_; }

 private:
  using Queue = std::deque<std::shared_ptr<Ticket>>;
  bool make_room(const std::string& tenant);
  void forget_if_empty(const std::string& tenant);

  asio::any_io_executor executor_;
  std::size_t most_;
  std::size_t size_ = 0;
  std::deque<std::string> turns_;  // tenants that have somebody here, the next one first
  std::unordered_map<std::string, Queue> queues_;
};

}  // namespace tb::session
