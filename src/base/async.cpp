// SPDX-License-Identifier: Apache-2.0
#include "base/async.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace tb {
namespace detail {

awaitable<bool> finished_within(std::chrono::nanoseconds limit, awaitable<void> task) {
  auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer{executor, limit};
  auto race = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, std::move(task), asio::deferred), timer.async_wait(asio::deferred));
  auto [order, failure, timer_error] =
      co_await race.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  if (order[0] == 1) co_return false;
  if (failure) std::rethrow_exception(failure);
  co_return true;
}

// One post there and one back: a coroutine of its own on the pool would cost two more.
awaitable<void> run_on(asio::thread_pool& pool, std::function<void()> work) {
  auto begin = [&pool](auto handler, std::function<void()> act) {
    auto guard = asio::make_work_guard(handler);
    asio::post(pool, [handler = std::move(handler), act = std::move(act),
                      guard = std::move(guard)]() mutable {
      std::exception_ptr failure;
      try {
        act();
      } catch (...) {
        failure = std::current_exception();
      }
      const auto home = guard.get_executor();
      asio::post(home, [handler = std::move(handler), guard = std::move(guard), failure]() mutable {
        std::move(handler)(failure);
      });
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(
      begin, asio::use_awaitable, std::move(work));
}

}  // namespace detail

awaitable<void> Signal::wait() { co_await timer_->async_wait(asio::as_tuple(asio::use_awaitable)); }

awaitable<bool> Signal::until(Condition ready, std::chrono::nanoseconds limit) {
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

void TaskGroup::spawn(std::string name, std::function<awaitable<void>()> task) {
  auto entry = running_.emplace(running_.end());
  asio::co_spawn(executor_, std::move(task),
                 asio::bind_cancellation_slot(entry->slot(), [this, entry, name = std::move(name)](
                                                                 std::exception_ptr failure) {
                   // Cancelled tasks arrive here too (operation_aborted).
                   if (failure) on_failure_(name, failure);
                   running_.erase(entry);
                   if (running_.empty()) idle_.notify_all();
                 }));
}

awaitable<void> TaskGroup::close() {
  for (auto entry = running_.begin(); entry != running_.end();) {
    (entry++)->emit(asio::cancellation_type::terminal);
  }
  while (!running_.empty()) co_await idle_.wait();
}

}  // namespace tb
