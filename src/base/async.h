// SPDX-License-Identifier: Apache-2.0
// Coroutines with an end and an owner: `within` bounds a wait, a TaskGroup owns background work.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

namespace tb {

namespace asio = boost::asio;
using asio::awaitable;

// Runs `task`, at most for `limit`. Empty when the time ran out; what the task threw is thrown on.
template <class T>
awaitable<std::optional<T>> within(std::chrono::nanoseconds limit, awaitable<T> task) {
  auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer{executor, limit};
  auto race = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, std::move(task), asio::deferred), timer.async_wait(asio::deferred));
  auto [order, failure, value, timer_error] =
      co_await race.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  if (order[0] == 1) co_return std::nullopt;
  if (failure) std::rethrow_exception(failure);
  co_return std::move(value);
}

// Runs what may block (a disk) on the pool's threads; the caller goes on where it was.
template <class Work>
awaitable<std::invoke_result_t<Work>> on_pool(asio::thread_pool& pool, Work work) {
  auto task = [work = std::move(work)]() mutable -> awaitable<std::invoke_result_t<Work>> {
    co_return work();
  };
  co_return co_await asio::co_spawn(pool, std::move(task), asio::use_awaitable);
}

// Waits that can be woken: `wait` suspends until the next `notify_all`. One loop, one thread.
class Signal {
 public:
  explicit Signal(asio::any_io_executor executor)
      : timer_(std::make_shared<asio::steady_timer>(executor,
                                                    asio::steady_timer::time_point::max())) {}
  awaitable<void> wait() { co_await timer_->async_wait(asio::as_tuple(asio::use_awaitable)); }
  void notify_all() { timer_->cancel(); }

  // Waits until `ready()`, which is asked again after each notify_all, at most for `limit`.
  // Returns what it says then.
  template <class Ready>
  awaitable<bool> until(Ready ready, std::chrono::nanoseconds limit) {
    if (ready()) co_return true;
    asio::steady_timer deadline{timer_->get_executor(), limit};
    const auto late = std::make_shared<bool>(false);  // the handler may outlive this frame
    deadline.async_wait([late, timer = timer_](boost::system::error_code error) {
      if (error) return;
      *late = true;
      timer->cancel();
    });
    while (!ready() && !*late) co_await wait();
    co_return ready();
  }

 private:
  std::shared_ptr<asio::steady_timer> timer_;
};

// Owns background coroutines: none outlives close(), and a failure is told, never lost.
class TaskGroup {
 public:
  using OnFailure = std::function<void(const std::string& name, std::exception_ptr)>;
  TaskGroup(asio::any_io_executor executor, OnFailure on_failure)
      : executor_(executor), on_failure_(std::move(on_failure)), idle_(executor) {}

  template <class Task>
  void spawn(std::string name, Task task) {
    auto entry = running_.emplace(running_.end());
    asio::co_spawn(
        executor_, std::move(task),
        asio::bind_cancellation_slot(
            entry->slot(), [this, entry, name = std::move(name)](std::exception_ptr failure) {
              // Cancelled tasks arrive here too (operation_aborted).
              if (failure) on_failure_(name, failure);
              running_.erase(entry);
              if (running_.empty()) idle_.notify_all();
            }));
  }

  // Cancels what runs and waits until it has ended.
  awaitable<void> close() {
    for (auto entry = running_.begin(); entry != running_.end();) {
      (entry++)->emit(asio::cancellation_type::terminal);
    }
    while (!running_.empty()) co_await idle_.wait();
  }

  std::size_t size() const { return running_.size(); }

 private:
  asio::any_io_executor executor_;
  OnFailure on_failure_;
  Signal idle_;
  std::list<asio::cancellation_signal> running_;
};

}  // namespace tb
