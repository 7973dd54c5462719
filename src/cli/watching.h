// SPDX-License-Identifier: Apache-2.0
// A server's eyes on its neighbours: the keeper, the service manager, and whoever sends signals.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <functional>
#include <list>

#include "api/router.h"
#include "base/async.h"
#include "native/provider.h"
#include "os/supervisor.h"

namespace tb::cli {

// Whether the keeper answers. However many want to know, it is asked once at a time: one that is
// stuck is not sent a packet for each of them.
class KeeperWatch {
 public:
  KeeperWatch(asio::any_io_executor executor, native::NativeProvider& provider);

  // False when it says nothing for `limit`, or is gone.
  awaitable<bool> answers(std::chrono::nanoseconds limit);
  awaitable<void> close() { return tasks_.close(); }

 private:
  awaitable<void> ask();

  native::NativeProvider& provider_;
  std::uint64_t asked_ = 0;
  std::uint64_t answered_ = 0;  // as large as asked_: nothing is under way
  bool gone_ = false;
  Signal heard_;
  TaskGroup tasks_;
};

// Tells the service manager that the loop turns, as often as it wants to hear that.
class Heartbeat {
 public:
  Heartbeat(asio::any_io_executor executor, const os::Supervisor& supervisor);
  awaitable<void> close() { return tasks_.close(); }

 private:
  awaitable<void> beat();

  asio::any_io_executor executor_;
  const os::Supervisor& supervisor_;
  TaskGroup tasks_;
};

// Looks often whether keys have ended, and ends what was begun with them.
class KeyWatch {
 public:
  KeyWatch(asio::any_io_executor executor, api::Router& router);
  awaitable<void> close() { return tasks_.close(); }

 private:
  awaitable<void> look();

  asio::any_io_executor executor_;
  api::Router& router_;
  TaskGroup tasks_;
};

// What is done on a signal, each time that it comes, until cancel().
class Signals {
 public:
  explicit Signals(asio::io_context& loop) : loop_(loop) {}
  void on(int number, std::function<void()> act);
  void cancel();

 private:
  struct Entry {
    Entry(asio::io_context& loop, int number, std::function<void()> then)
        : signal(loop, number), act(std::move(then)) {}
    asio::signal_set signal;
    std::function<void()> act;
  };
  static void await(Entry& entry);

  asio::io_context& loop_;
  std::list<Entry> entries_;
};

}  // namespace tb::cli
