// SPDX-License-Identifier: Apache-2.0
// For tests: a loop that runs coroutines as far as they can go, without waiting for time to pass.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/async.h"

namespace tb {

// What became of a coroutine.
template <class T>
struct Outcome {
  bool over = false;
  std::optional<T> value;
  std::exception_ptr failure;

  // Throws what it threw.
  T get() {
    if (!over) throw std::logic_error{"the coroutine has not ended"};
    if (failure) std::rethrow_exception(failure);
    return *value;
  }
};

class TestLoop {
 public:
  asio::any_io_executor executor() { return io_.get_executor(); }

  // Runs until nothing can go on but by a timer or from outside.
  void settle() {
    io_.restart();
    io_.poll();
  }

  // Begins `task`, and settles.
  template <class T>
  std::shared_ptr<Outcome<T>> start(awaitable<T> task) {
    auto outcome = std::make_shared<Outcome<T>>();
    asio::co_spawn(io_, std::move(task), [outcome](std::exception_ptr failure, T value) {
      outcome->over = true;
      outcome->failure = failure;
      if (!failure) outcome->value = std::move(value);
    });
    settle();
    return outcome;
  }
  std::shared_ptr<Outcome<bool>> start(awaitable<void> task) {
    return start(ended(std::move(task)));
  }

  // Waits for its end, which must come within five seconds.
  template <class T>
  T finish(const std::shared_ptr<Outcome<T>>& outcome) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{5};
    while (!outcome->over && std::chrono::steady_clock::now() < deadline) {
      io_.restart();
      io_.run_one_until(deadline);
    }
    return outcome->get();
  }
  // Whether it comes to that within five seconds.
  template <class Condition>
  bool until(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{5};
    while (!condition() && std::chrono::steady_clock::now() < deadline) {
      io_.restart();
      io_.run_one_until(deadline);
    }
    return condition();
  }
  template <class T>
  T run(awaitable<T> task) {
    return finish(start(std::move(task)));
  }
  void run(awaitable<void> task) { finish(start(std::move(task))); }

 private:
  static awaitable<bool> ended(awaitable<void> task) {
    co_await std::move(task);
    co_return true;
  }

  asio::io_context io_{1};
};

}  // namespace tb
