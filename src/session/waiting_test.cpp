// SPDX-License-Identifier: Apache-2.0
// Creations that wait for a place of the pool, and those that are more than their owner may have.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "base/test_loop.h"
#include "limits/limiter.h"
#include "sandbox/fake_provider.h"
#include "session/sessions.h"
#include "session/test_parts.h"

namespace tb::session {
namespace {

PoolSettings places(std::size_t capacity) {
  PoolSettings pool;
  pool.size = 0;
  pool.capacity = capacity;
  pool.waiting = 3;
  return pool;
}

struct World {
  limits::Limiter limiter;  // outlives all that is counted
  TestLoop loop;
  TestParts parts;  // what runs counts there until it is gone
  sandbox::FakeProvider provider{loop.executor()};
  Sessions sessions;

  explicit World(std::size_t capacity, limits::Limiter::Settings settings = {})
      : limiter(settings),
        sessions(loop.executor(), with_limits(), TestParts::settings(places(capacity))) {
    set_log(LogLevel::off, false);
  }
  ~World() {
    loop.run(sessions.close());
    set_log(LogLevel::info, false);
  }
  Sessions::Parts with_limits() {
    Sessions::Parts all = parts.with(provider);
    all.limits = &limiter;
    return all;
  }

  auto patient(const std::string& tenant, Milliseconds limit = 1h) {
    return std::make_shared<Patience>(tenant, limit);
  }
  auto begin(const std::string& tenant, std::shared_ptr<Patience> patience,
             const std::string& thread = {}) {
    SessionSpec spec;
    spec.tenant = tenant;
    spec.thread = thread;
    return loop.start(sessions.get_or_create(std::move(spec), std::move(patience)));
  }
  auto begin(const std::string& tenant) { return begin(tenant, patient(tenant)); }
  void remove(const Sessions::Result& result) { loop.run(sessions.remove(result.session->id)); }
  std::uint64_t waits(Waited result) {
    return parts.events.metrics().creation_waits[result].value();
  }
};

TEST(Waiting, APlaceThatComesFreeIsGivenOn) {
  World world{1};
  const auto first = world.begin("a");
  const auto second = world.begin("b");
  const auto third = world.begin("a");
  EXPECT_TRUE(first->over);
  EXPECT_FALSE(second->over);
  EXPECT_EQ(world.sessions.pool().waiting(), 2u);
  world.remove(first->get());
  world.loop.settle();
  EXPECT_TRUE(second->over);
  EXPECT_FALSE(third->over);
  world.remove(second->get());
  EXPECT_TRUE(world.loop.finish(third).session);
  EXPECT_EQ(world.sessions.pool().used(), 1u);
  EXPECT_EQ(world.waits(Waited::served), 2u);
}

TEST(Waiting, WithoutPatienceTheAnswerComesAtOnce) {
  World world{1};
  world.begin("a")->get();
  for (const auto& patience : {std::shared_ptr<Patience>{}, world.patient("a", 0ms)}) {
    const auto refused = world.begin("a", patience);
    EXPECT_THROW(refused->get(), Error);
  }
  EXPECT_EQ(world.sessions.pool().waiting(), 0u);
}

TEST(Waiting, HasAnEnd) {
  World world{1};
  world.begin("a")->get();
  const auto late = world.begin("a", world.patient("a", 20ms));
  EXPECT_FALSE(late->over);
  try {
    world.loop.finish(late);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::exhausted);
  }
  EXPECT_EQ(world.sessions.pool().waiting(), 0u);
  EXPECT_EQ(world.waits(Waited::timeout), 1u);
}

TEST(Waiting, TheLineIsBounded) {
  World world{1};
  world.begin("a")->get();
  const auto one = world.begin("a"), two = world.begin("a"), three = world.begin("a");
  const auto fourth = world.begin("a");
  EXPECT_THROW(fourth->get(), Error);
  const auto other = world.begin("b");  // the one with the most makes room
  EXPECT_FALSE(other->over);
  EXPECT_THROW(three->get(), Error);
  EXPECT_EQ(world.waits(Waited::refused), 2u);
}

TEST(Waiting, WhoLeavesLosesItsTurn) {
  World world{1};
  const auto first = world.begin("a");
  const auto patience = world.patient("a");
  const auto leaves = world.begin("a", patience);
  const auto stays = world.begin("a");
  patience->give_up();
  world.loop.settle();
  EXPECT_THROW(leaves->get(), GaveUp);
  EXPECT_EQ(world.sessions.pool().waiting(), 1u);
  world.remove(first->get());
  EXPECT_TRUE(world.loop.finish(stays).session);
  EXPECT_EQ(world.waits(Waited::left), 1u);
}

TEST(Waiting, WhoLeavesWithAPlaceGivesItOn) {
  World world{1};
  const auto first = world.begin("a");
  const auto patience = world.patient("a");
  const auto leaves = world.begin("a", patience);
  const auto stays = world.begin("a");
  // Both before the loop turns: it was granted, and did not hear of it.
  world.provider.die(first->get().session->id, false);
  patience->give_up();
  EXPECT_TRUE(world.loop.finish(stays).session);
  EXPECT_THROW(leaves->get(), GaveUp);
  EXPECT_EQ(world.sessions.pool().used(), 1u);
}

TEST(Waiting, WhoJoinedAThreadsCreationGoesOnWithoutWhoLeft) {
  World world{1};
  const auto first = world.begin("a");
  const auto patience = world.patient("a");
  const auto leaves = world.begin("a", patience, "thread");
  const auto joined = world.begin("a", world.patient("a"), "thread");
  EXPECT_EQ(world.sessions.pool().waiting(), 1u);
  patience->give_up();
  world.loop.settle();
  EXPECT_THROW(leaves->get(), GaveUp);
  EXPECT_FALSE(joined->over);
  EXPECT_EQ(world.sessions.pool().waiting(), 1u);
  world.remove(first->get());
  EXPECT_EQ(world.loop.finish(joined).session->spec.thread, "thread");
}

TEST(Quotas, SessionsOfATenantAreBounded) {
  World world{10, {.tenant = limits::parse_allowance("sessions=2")}};
  const auto first = world.begin("a");
  world.begin("a")->get();
  EXPECT_THROW(world.begin("a")->get(), limits::Exceeded);
  EXPECT_NO_THROW(world.begin("b")->get());
  world.remove(first->get());
  EXPECT_NO_THROW(world.begin("a")->get());
  EXPECT_THROW(world.begin("a")->get(), limits::Exceeded);
}

TEST(Quotas, AThreadThatHasItsSessionFindsItAllTheSame) {
  World world{10, {.tenant = limits::parse_allowance("sessions=1,creations=1/day")}};
  world.begin("a", nullptr, "t")->get();
  EXPECT_TRUE(world.begin("a", nullptr, "t")->get().existed);
  EXPECT_THROW(world.begin("a", nullptr, "u")->get(), limits::Exceeded);
}

TEST(Quotas, CreationsAreBoundedWhateverBecomesOfThem) {
  World world{10, {.tenant = limits::parse_allowance("creations=2/day")}};
  world.remove(world.begin("a")->get());
  world.remove(world.begin("a")->get());
  EXPECT_THROW(world.begin("a")->get(), limits::Exceeded);
}

TEST(Quotas, ACreationThatFailsHoldsNothing) {
  World world{0, {.tenant = limits::parse_allowance("sessions=1")}};
  for (int i = 0; i < 3; ++i) {
    try {
      world.begin("a", nullptr)->get();
      FAIL();
    } catch (const limits::Exceeded&) {
      FAIL() << "it counts a session that there is not";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::exhausted);
    }
  }
}

TEST(Quotas, ProcessesCountUntilTheyEnd) {
  World world{10, {.tenant = limits::parse_allowance("processes=1")}};
  world.provider.on_start = [](sandbox::FakeProcess&) {};  // goes on running
  const auto session = world.begin("a")->get().session;
  const auto start = [&] {
    sandbox::Command command;
    command.script = "sleep 1";
    return world.loop.start(world.sessions.start(session, std::move(command), {}));
  };
  const auto process = start()->get();
  EXPECT_THROW(start()->get(), limits::Exceeded);
  process->kill();
  EXPECT_NO_THROW(start()->get());
  EXPECT_THROW(start()->get(), limits::Exceeded);
}

}  // namespace
}  // namespace tb::session
