// SPDX-License-Identifier: Apache-2.0
#include "base/async.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "base/test_loop.h"
#include "base/units.h"

namespace tb {
namespace {

awaitable<int> answer(int value) { co_return value; }

awaitable<int> fail() {
  co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
  throw Error{Code::conflict, "failed on purpose"};
}

// Says in `ended` that it was ended.
struct Guard {
  bool& ended;
  explicit Guard(bool& flag) : ended(flag) {}
  ~Guard() { ended = true; }
};

awaitable<int> never(bool& ended) {
  Guard guard{ended};
  asio::steady_timer timer{co_await asio::this_coro::executor,
                           asio::steady_timer::time_point::max()};
  co_await timer.async_wait(asio::use_awaitable);
  co_return 1;
}

awaitable<void> wait_and_count(Signal& signal, int& count) {
  co_await signal.wait();
  ++count;
}

TEST(Within, GivesTheValue) {
  TestLoop loop;
  EXPECT_EQ(loop.run(within(1h, answer(7))), 7);
}

TEST(Within, IsEmptyWhenTheTimeRanOutAndTheTaskHasEnded) {
  TestLoop loop;
  bool ended = false;
  EXPECT_EQ(loop.run(within(1ms, never(ended))), std::nullopt);
  EXPECT_TRUE(ended);
}

TEST(Within, PassesOnWhatTheTaskThrewAtOnce) {
  TestLoop loop;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_THROW(loop.run(within(1h, fail())), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 1s);
}

TEST(Within, NestsAndTheShorterTimeCounts) {
  TestLoop loop;
  bool ended = false;
  const auto result = loop.run(within(1h, within(1ms, never(ended))));
  ASSERT_TRUE(result);
  EXPECT_FALSE(*result);
}

awaitable<bool> leaves_and_comes_back(asio::thread_pool& pool) {
  const auto here = std::this_thread::get_id();
  auto work = [] { return std::this_thread::get_id(); };
  const std::thread::id there = co_await on_pool(pool, work);
  const bool both = there != here && std::this_thread::get_id() == here;
  co_return both;
}

awaitable<void> fails_on_pool(asio::thread_pool& pool) {
  auto work = [] { throw Error{Code::conflict, "failed on purpose"}; };
  co_await on_pool(pool, work);
}

TEST(OnPool, WorksThereAndGoesOnHere) {
  asio::thread_pool pool{1};
  TestLoop loop;
  EXPECT_TRUE(loop.run(leaves_and_comes_back(pool)));
  EXPECT_THROW(loop.run(fails_on_pool(pool)), Error);
}

TEST(Signal, WakesAllThatWait) {
  TestLoop loop;
  Signal signal{loop.executor()};
  int count = 0;
  for (int i = 0; i < 10; ++i) loop.start(wait_and_count(signal, count));
  EXPECT_EQ(count, 0);
  signal.notify_all();
  loop.settle();
  EXPECT_EQ(count, 10);
}

TEST(Signal, IsNotRemembered) {
  TestLoop loop;
  Signal signal{loop.executor()};
  int count = 0;
  signal.notify_all();
  loop.start(wait_and_count(signal, count));
  EXPECT_EQ(count, 0);
  signal.notify_all();
  loop.settle();
  EXPECT_EQ(count, 1);
}

struct Told {
  std::vector<std::string> names;
  TaskGroup::OnFailure callback() {
    return [this](const std::string& name, std::exception_ptr) { names.push_back(name); };
  }
};

TEST(TaskGroup, RunsWhatItIsGivenAndForgetsItAfterwards) {
  TestLoop loop;
  Told told;
  TaskGroup group{loop.executor(), told.callback()};
  int ran = 0;
  group.spawn("one", [&ran]() -> awaitable<void> {
    ++ran;
    co_return;
  });
  EXPECT_EQ(group.size(), 1u);
  loop.settle();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(group.size(), 0u);
  EXPECT_TRUE(told.names.empty());
}

TEST(TaskGroup, TellsAFailureByTheTasksName) {
  TestLoop loop;
  Told told;
  TaskGroup group{loop.executor(), told.callback()};
  group.spawn("pump", []() -> awaitable<void> { co_await fail(); });
  loop.settle();
  EXPECT_EQ(told.names, std::vector<std::string>{"pump"});
  EXPECT_EQ(group.size(), 0u);
}

TEST(TaskGroup, CloseCancelsAndWaits) {
  TestLoop loop;
  Told told;
  TaskGroup group{loop.executor(), told.callback()};
  bool ended[3] = {};
  for (bool& flag : ended) {
    group.spawn("sleeper", [&flag]() -> awaitable<void> { co_await never(flag); });
  }
  loop.settle();
  EXPECT_EQ(group.size(), 3u);
  loop.run(group.close());
  EXPECT_EQ(group.size(), 0u);
  for (const bool flag : ended) EXPECT_TRUE(flag);
}

TEST(TaskGroup, CloseEndsALoopThatWaitsForASignal) {
  TestLoop loop;
  Told told;
  TaskGroup group{loop.executor(), told.callback()};
  Signal signal{loop.executor()};
  group.spawn("loop", [&signal]() -> awaitable<void> {
    for (;;) co_await signal.wait();
  });
  loop.settle();
  loop.run(group.close());
  EXPECT_EQ(group.size(), 0u);
}

TEST(TaskGroup, CloseOfAnEmptyGroupReturnsAtOnce) {
  TestLoop loop;
  Told told;
  TaskGroup group{loop.executor(), told.callback()};
  EXPECT_TRUE(loop.start(group.close())->over);
}

TEST(TaskGroup, ATaskMaySpawnAnother) {
  TestLoop loop;
  Told told;
  TaskGroup group{loop.executor(), told.callback()};
  int ran = 0;
  group.spawn("outer", [&]() -> awaitable<void> {
    group.spawn("inner", [&ran]() -> awaitable<void> {
      ++ran;
      co_return;
    });
    co_return;
  });
  loop.settle();
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace tb
