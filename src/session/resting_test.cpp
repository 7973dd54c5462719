// SPDX-License-Identifier: Apache-2.0
// Sandboxes that are put away because nobody uses them.
#include <gtest/gtest.h>

#include <boost/asio/steady_timer.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/test_loop.h"
#include "sandbox/fake_provider.h"
#include "session/sessions.h"
#include "session/test_parts.h"

namespace tb::session {
namespace {

Sessions::Settings sleepy(std::size_t capacity) {
  PoolSettings pool;
  pool.size = 0;
  pool.capacity = capacity;
  Sessions::Settings settings = TestParts::settings(std::move(pool));
  settings.sleep = 1ms;
  return settings;
}

struct World {
  TestLoop loop;
  sandbox::FakeProvider provider{loop.executor()};
  TestParts parts;
  Sessions sessions;

  explicit World(std::size_t capacity = 100)
      : sessions(loop.executor(), parts.with(provider), sleepy(capacity)) {
    set_log(LogLevel::off, false);
    loop.run(sessions.open());
  }
  ~World() {
    loop.run(sessions.close());
    set_log(LogLevel::info, false);
  }

  std::shared_ptr<Session> create() { return loop.run(sessions.get_or_create({})).session; }
  auto execute(const std::shared_ptr<Session>& session) {
    sandbox::Command command;
    command.script = "true";
    return loop.start(sessions.execute(session, std::move(command), {}));
  }
  void wait_until(std::function<bool()> ready) {
    auto poll = [](std::function<bool()> what) -> awaitable<void> {
      asio::steady_timer timer{co_await asio::this_coro::executor};
      while (!what()) {
        timer.expires_after(5ms);
        co_await timer.async_wait(asio::use_awaitable);
      }
    };
    loop.run(poll(std::move(ready)));
  }
  std::shared_ptr<Session> create_asleep() {
    const auto session = create();
    wait_until([&] { return session->asleep != nullptr; });
    return session;
  }
  std::size_t used() const { return sessions.pool().used(); }
};

// Looks until it is told to let go.
awaitable<bool> look_until(Sessions& sessions, std::shared_ptr<Session> session, Signal& over) {
  const Use use = co_await sessions.look(session);
  co_await over.wait();
  co_return true;
}

TEST(Resting, OneThatNobodyUsesIsPutAwayAndComesBack) {
  World world;
  const auto session = world.create_asleep();
  EXPECT_EQ(session->sandbox, nullptr);
  EXPECT_TRUE(world.provider.sandboxes.empty());
  EXPECT_EQ(world.used(), 1u);
  EXPECT_NO_THROW(world.execute(session)->get());
  ASSERT_TRUE(session->sandbox);
  EXPECT_EQ(session->asleep, nullptr);
  EXPECT_EQ(world.used(), 1u);
}

TEST(Resting, WhatRanInItIsKnownMeanwhile) {
  World world;
  const auto session = world.create();
  world.execute(session)->get();
  world.wait_until([&] { return session->asleep != nullptr; });
  ASSERT_TRUE(session->known());
  EXPECT_EQ(session->known()->processes().size(), 1u);
}

TEST(Resting, OneThatIsFullOfThingsStays) {
  World world;
  world.provider.lets_rest = false;
  const auto session = world.create();
  world.wait_until([&] { return world.provider.rests > 0; });
  world.loop.settle();
  EXPECT_TRUE(session->sandbox && session->sandbox->alive());
  EXPECT_NO_THROW(world.execute(session)->get());
}

TEST(Resting, WhoIsAtWorkOrOnlyLooksKeepsItAwake) {
  World world;
  const auto session = world.create();
  const auto other = world.create();
  Signal over{world.loop.executor()};
  const auto looking = world.loop.start(look_until(world.sessions, session, over));
  world.wait_until([&] { return other->asleep != nullptr; });
  EXPECT_TRUE(session->sandbox);
  over.notify_all();
  world.loop.settle();
  EXPECT_TRUE(looking->over);
  world.wait_until([&] { return session->asleep != nullptr; });
}

TEST(Resting, ARunningOrLingeringProcessAndAShellKeepItAwake) {
  World world;
  std::vector<sandbox::FakeProcess*> running;
  world.provider.on_start = [&](sandbox::FakeProcess& process) { running.push_back(&process); };
  const auto session = world.create();
  const auto shell = world.create();
  const auto executed = world.execute(session);
  world.loop.run(world.sessions.open_shell(shell, {}, {}));
  world.wait_until([&, other = world.create()] { return other->asleep != nullptr; });
  EXPECT_TRUE(session->sandbox && shell->sandbox);
  ASSERT_EQ(running.size(), 1u);
  running[0]->background = true;
  running[0]->end({});
  world.wait_until([&] { return executed->over; });
  world.wait_until([&, other = world.create()] { return other->asleep != nullptr; });
  EXPECT_TRUE(session->sandbox);
  running[0]->end_background();
  world.wait_until([&] { return session->asleep != nullptr; });
}

TEST(Resting, WhoWantsItWhileItIsPutAwayWaitsAndGetsItBack) {
  World world;
  const auto session = world.create();
  world.provider.hold();
  world.wait_until([&] { return world.provider.rests == 1; });
  const auto executed = world.execute(session);
  world.loop.settle();
  EXPECT_FALSE(executed->over);
  world.provider.let_go();
  world.wait_until([&] { return executed->over; });
  EXPECT_NO_THROW(executed->get());
  EXPECT_EQ(world.used(), 1u);
}

TEST(Resting, OneThatIsRemovedMeanwhileIsGone) {
  World world;
  const auto session = world.create();
  world.provider.hold();
  world.wait_until([&] { return world.provider.rests == 1; });
  EXPECT_TRUE(world.loop.run(world.sessions.remove(session->id)));
  world.provider.let_go();
  world.loop.settle();
  EXPECT_EQ(world.used(), 0u);
  EXPECT_EQ(world.sessions.find(session->id), nullptr);
}

TEST(Resting, RemovingOrExpiringASleeperGivesItsPlaceBack) {
  World world{2};
  const auto first = world.create_asleep();
  const auto second = world.create_asleep();
  EXPECT_THROW(world.create(), Error);
  world.loop.run(world.sessions.remove(first->id));
  EXPECT_EQ(world.used(), 1u);
  world.provider.die(second->id, false);
  EXPECT_EQ(world.used(), 0u);
  EXPECT_EQ(world.sessions.count(), 0u);
}

TEST(Resting, AWakingThatFailsKeepsThePlaceAndTheNextTryWorks) {
  World world{1};
  const auto session = world.create_asleep();
  world.provider.failures = 1;
  EXPECT_THROW(world.execute(session)->get(), Error);
  EXPECT_EQ(world.used(), 1u);
  EXPECT_THROW(world.create(), Error);
  EXPECT_NO_THROW(world.execute(session)->get());
  EXPECT_EQ(world.used(), 1u);
}

TEST(Resting, LookingDoesNotLengthenItsLife) {
  World world;
  const auto session = world.create_asleep();
  Signal over{world.loop.executor()};
  const auto looking = world.loop.start(look_until(world.sessions, session, over));
  world.wait_until([&] { return session->sandbox != nullptr; });
  over.notify_all();
  world.loop.settle();
  EXPECT_LT(world.provider.idle[session->id], session->spec.idle);
}

}  // namespace
}  // namespace tb::session
