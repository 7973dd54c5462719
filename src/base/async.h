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

// What does not depend on the type of a result is compiled once, in async.cpp: each instance of
// these parts of Asio costs a compiler a second.
namespace detail {
// False when the time ran out. What the task threw is thrown on.
awaitable<bool> finished_within(std::chrono::nanoseconds limit, awaitable<void> task);
awaitable<void> run_on(asio::thread_pool& pool, std::function<void()> work);

template <class T>
awaitable<void> keep_result(awaitable<T> task, std::shared_ptr<std::optional<T>> result) {
  result->emplace(co_await std::move(task));
}
}  // namespace detail

// Runs `task`, at most for `limit`. Empty when the time ran out; what the task threw is thrown on.
template <class T>
awaitable<std::optional<T>> within(std::chrono::nanoseconds limit, awaitable<T> task) {
  const auto result = std::make_shared<std::optional<T>>();
  awaitable<void> kept = detail::keep_result<T>(std::move(task), result);
  const bool finished = co_await detail::finished_within(limit, std::move(kept));
  if (!finished) co_return std::nullopt;
  co_return std::move(*result);
}

// Runs what may block (a disk) on the pool's threads; the caller goes on where it was.
template <class Work>
awaitable<std::invoke_result_t<Work>> on_pool(asio::thread_pool& pool, Work work) {
  using Result = std::invoke_result_t<Work>;
  if constexpr (std::is_void_v<Result>) {
    const auto shared = std::make_shared<Work>(std::move(work));
    std::function<void()> task = [shared] { (*shared)(); };
    co_await detail::run_on(pool, std::move(task));
  } else {
    // The work's, also when nobody waits for it any more.
    struct Shared {
      Work work;
      std::optional<Result> result;
    };
    const auto shared = std::make_shared<Shared>(Shared{std::move(work), {}});
    std::function<void()> task = [shared] { shared->result.emplace(shared->work()); };
    co_await detail::run_on(pool, std::move(task));
    co_return std::move(*shared->result);
  }
}

// What is asked while it is waited for: the caller's, who keeps it until then.
class Condition {
 public:
  template <class Ready>
  Condition(const Ready& ready)
      : ready_(&ready),
        ask_([](const void* of) -> bool { return (*static_cast<const Ready*>(of))(); }) {}
  bool operator()() const { return ask_(ready_); }

 private:
  const void* ready_;
  bool (*ask_)(const void*);
};

// Waits that can be woken: `wait` suspends until the next `notify_all`. One loop, one thread.
class Signal {
 public:
  explicit Signal(asio::any_io_executor executor)
      : timer_(std::make_shared<asio::steady_timer>(executor,
                                                    asio::steady_timer::time_point::max())) {}
  awaitable<void> wait();
  void notify_all() { timer_->cancel(); }

  // Waits until `ready()`, which is asked again after each notify_all, at most for `limit`.
  // Returns what it says then.
  awaitable<bool> until(Condition ready, std::chrono::nanoseconds limit);

 private:
  std::shared_ptr<asio::steady_timer> timer_;
};

// Owns background coroutines: none outlives close(), and a failure is told, never lost.
class TaskGroup {
 public:
  using OnFailure = std::function<void(const std::string& name, std::exception_ptr)>;
  TaskGroup(asio::any_io_executor executor, OnFailure on_failure)
      : executor_(executor), on_failure_(std::move(on_failure)), idle_(executor) {}

  void spawn(std::string name, std::function<awaitable<void>()> task);
  // Cancels what runs and waits until it has ended.
  awaitable<void> close();
  std::size_t size() const { return running_.size(); }

 private:
  asio::any_io_executor executor_;
  OnFailure on_failure_;
  Signal idle_;
  std::list<asio::cancellation_signal> running_;
};

}  // namespace tb
