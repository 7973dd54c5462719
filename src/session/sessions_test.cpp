// SPDX-License-Identifier: Apache-2.0
#include "session/sessions.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "base/test_loop.h"
#include "sandbox/fake_provider.h"
#include "session/label.h"
#include "session/test_parts.h"

namespace tb::session {
namespace {

PoolSettings settings(std::size_t size, std::size_t capacity) {
  PoolSettings pool;
  pool.size = size;
  pool.capacity = capacity;
  return pool;
}

struct World {
  TestLoop loop;
  sandbox::FakeProvider provider{loop.executor()};
  TestParts parts;
  Sessions sessions;

  explicit World(PoolSettings pool = settings(0, 100))
      : sessions(loop.executor(), parts.with(provider), TestParts::settings(std::move(pool))) {
    set_log(LogLevel::off, false);
  }
  ~World() {
    loop.run(sessions.close());
    set_log(LogLevel::info, false);
  }

  SessionSpec spec(std::string thread) {
    SessionSpec value;
    value.thread = std::move(thread);
    value.user = "me";
    return value;
  }
  auto begin(std::string thread) {
    return loop.start(sessions.get_or_create(spec(std::move(thread))));
  }
  Sessions::Result create(std::string thread) { return begin(std::move(thread))->get(); }
  auto execute(const std::shared_ptr<Session>& session) {
    sandbox::Command command;
    command.script = "true";
    return loop.start(sessions.execute(session, std::move(command), {}));
  }
};

TEST(Sessions, TheSameThreadGetsTheSameSession) {
  World world;
  const Sessions::Result first = world.create("t");
  const Sessions::Result again = world.create("t");
  const Sessions::Result other = world.create("u");
  EXPECT_FALSE(first.existed);
  EXPECT_TRUE(again.existed);
  EXPECT_EQ(first.session, again.session);
  EXPECT_FALSE(other.existed);
  EXPECT_NE(other.session, first.session);
  EXPECT_EQ(world.sessions.count(), 2u);
}

TEST(Sessions, AHundredRequestsAtOnceMakeOneSandbox) {
  World world;
  world.provider.hold();
  std::vector<std::shared_ptr<Outcome<Sessions::Result>>> all;
  for (int i = 0; i < 100; ++i) all.push_back(world.begin("t"));
  EXPECT_EQ(world.provider.creations, 1u);
  for (const auto& outcome : all) EXPECT_FALSE(outcome->over);
  world.provider.let_go();
  world.loop.settle();
  const std::shared_ptr<Session> session = world.sessions.find_thread("t");
  ASSERT_TRUE(session);
  for (const auto& outcome : all) {
    const Sessions::Result result = outcome->get();
    EXPECT_EQ(result.session, session);
    EXPECT_FALSE(result.existed);
  }
  EXPECT_EQ(world.provider.creations, 1u);
  EXPECT_EQ(world.sessions.pool().used(), 1u);
}

TEST(Sessions, EachTenantHasThreadsOfItsOwn) {
  World world;
  const auto of = [&](const std::string& tenant) {
    SessionSpec spec;
    spec.thread = "t";
    spec.tenant = tenant;
    return world.loop.run(world.sessions.get_or_create(std::move(spec)));
  };
  const auto ours = of("").session;
  const auto theirs = of("acme").session;
  EXPECT_NE(ours, theirs);
  EXPECT_EQ(of("acme").session, theirs);
  EXPECT_EQ(world.sessions.find_thread("t"), ours);
  EXPECT_EQ(world.sessions.find_thread("t", "acme"), theirs);
  EXPECT_EQ(world.sessions.find_thread("t", "other"), nullptr);
  EXPECT_TRUE(world.loop.run(world.sessions.remove(theirs->id)));
  EXPECT_EQ(world.sessions.find_thread("t", "acme"), nullptr);
  EXPECT_EQ(world.sessions.find_thread("t"), ours);
}

TEST(Sessions, DifferentThreadsDontWaitForEachOther) {
  World world;
  world.provider.hold();
  const auto first = world.begin("a");
  const auto second = world.begin("b");
  EXPECT_EQ(world.provider.creations, 2u);
  world.provider.let_go();
  world.loop.settle();
  EXPECT_NE(first->get().session, second->get().session);
}

TEST(Sessions, AFailedCreationFailsForAllThatJoinedAndTheNextOneWorks) {
  World world;
  world.provider.failures = 1;
  world.provider.hold();
  std::vector<std::shared_ptr<Outcome<Sessions::Result>>> all;
  for (int i = 0; i < 10; ++i) all.push_back(world.begin("t"));
  world.provider.let_go();
  world.loop.settle();
  for (const auto& outcome : all) EXPECT_THROW(outcome->get(), Error);
  EXPECT_EQ(world.sessions.count(), 0u);
  EXPECT_EQ(world.sessions.pool().used(), 0u);
  EXPECT_FALSE(world.create("t").existed);
  EXPECT_EQ(world.provider.creations, 2u);
}

TEST(Sessions, WithoutAThreadEachIsNew) {
  World world;
  EXPECT_NE(world.create("").session, world.create("").session);
  EXPECT_EQ(world.sessions.count(), 2u);
  EXPECT_EQ(world.sessions.find_thread(""), nullptr);
}

TEST(Sessions, TheCapacityIsTheEnd) {
  World world{settings(0, 2)};
  const std::string id = world.create("a").session->id;
  world.create("b");
  try {
    world.create("c");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::exhausted);
  }
  EXPECT_TRUE(world.create("a").existed);
  world.loop.run(world.sessions.remove(id));
  EXPECT_FALSE(world.create("c").existed);
}

TEST(Sessions, CreationsUnderWayCountForTheCapacity) {
  World world{settings(0, 2)};
  world.provider.hold();
  const auto first = world.begin("a");
  const auto second = world.begin("b");
  const auto third = world.begin("c");
  EXPECT_THROW(third->get(), Error);
  world.provider.let_go();
  world.loop.settle();
  EXPECT_NO_THROW(first->get());
  EXPECT_NO_THROW(second->get());
}

TEST(Sessions, TheSandboxIsToldItsOwnerAndItsTime) {
  World world;
  SessionSpec spec = world.spec("t");
  spec.idle = 7min;
  const auto result = world.loop.run(world.sessions.get_or_create(spec));
  EXPECT_EQ(world.provider.idle.at(result.session->id), 7min);
  const auto known = from_label(world.provider.sandboxes.at(result.session->id)->spec.label);
  ASSERT_TRUE(known);
  EXPECT_EQ(known->id, result.session->id);
  EXPECT_EQ(known->thread, "t");
}

TEST(Sessions, GetThrowsWhereFindIsEmpty) {
  World world;
  EXPECT_EQ(world.sessions.find("x"), nullptr);
  EXPECT_THROW(world.sessions.get("x"), Error);
  const auto session = world.create("t").session;
  EXPECT_EQ(world.sessions.get(session->id), session);
}

TEST(Sessions, AnExpiredOneIsGoneTogetherWithItsThread) {
  World world;
  const std::string id = world.create("t").session->id;
  world.provider.die(id, false);
  EXPECT_EQ(world.sessions.find(id), nullptr);
  EXPECT_EQ(world.sessions.find_thread("t"), nullptr);
  EXPECT_EQ(world.sessions.pool().used(), 0u);
  const auto next = world.create("t");
  EXPECT_FALSE(next.existed);
  EXPECT_NE(next.session->id, id);
}

TEST(Sessions, WhatIsSaidAboutStrangersIsIgnored) {
  World world;
  world.create("t");
  world.provider.die("stranger", false);
  world.provider.die("stranger", true);
  EXPECT_EQ(world.sessions.count(), 1u);
  EXPECT_EQ(world.sessions.pool().used(), 1u);
}

TEST(Sessions, RemoveTakesEverythingAndMayBeRepeated) {
  World world;
  const std::string id = world.create("t").session->id;
  EXPECT_TRUE(world.loop.run(world.sessions.remove(id)));
  EXPECT_FALSE(world.loop.run(world.sessions.remove(id)));
  EXPECT_FALSE(world.loop.run(world.sessions.remove("never was")));
  EXPECT_EQ(world.provider.destroyed, std::vector<std::string>{id});
  EXPECT_EQ(world.sessions.find_thread("t"), nullptr);
  EXPECT_EQ(world.sessions.pool().used(), 0u);
}

TEST(Sessions, ACommandRenewsTheTime) {
  World world;
  const auto session = world.create("t").session;
  world.provider.on_start = [](sandbox::FakeProcess&) {};  // goes on running
  sandbox::Command command;
  command.script = "sleep";
  command.timeout = 10min;
  const auto running = world.loop.start(world.sessions.execute(session, std::move(command), {}));
  const auto told = [&] { return world.provider.idle.at(session->id); };
  EXPECT_TRUE(world.loop.until([&] { return told() >= session->spec.idle + 10min; }));
  world.provider.sandboxes.at(session->id)->started[0]->end({});
  world.loop.settle();
  EXPECT_TRUE(running->over);
  EXPECT_TRUE(world.loop.until([&] { return told() == session->spec.idle; }));
}

TEST(Sessions, RemovingOneEndsTheCommandsThatWaitInIt) {
  World world;
  const auto session = world.create("t").session;
  world.provider.on_start = [](sandbox::FakeProcess&) {};
  const auto running = world.execute(session);
  EXPECT_FALSE(running->over);
  world.loop.run(world.sessions.remove(session->id));
  world.loop.settle();
  ASSERT_TRUE(running->over);
  EXPECT_EQ(running->get()->exit()->cause, sandbox::Cause::lost);
}

}  // namespace
}  // namespace tb::session
