// SPDX-License-Identifier: Apache-2.0
// Sandboxes that died and come back with their files; and what an earlier server left.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "base/test_loop.h"
#include "sandbox/fake_provider.h"
#include "session/label.h"
#include "session/sessions.h"
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

  std::shared_ptr<Session> create(const std::string& thread) {
    SessionSpec spec;
    spec.thread = thread;
    return loop.run(sessions.get_or_create(std::move(spec))).session;
  }
  // One whose sandbox died and whose files are kept.
  std::shared_ptr<Session> create_dormant(const std::string& thread) {
    auto session = create(thread);
    provider.die(session->id, true);
    return session;
  }
  auto execute(const std::shared_ptr<Session>& session) {
    sandbox::Command command;
    command.script = "true";
    return loop.start(sessions.execute(session, std::move(command), {}));
  }
};

std::string label_of(const std::string& id, const std::string& thread) {
  StoredSession session;
  session.id = id;
  session.thread = thread;
  session.policy = "open";
  session.idle = 30min;
  session.created = WallTime{std::chrono::seconds{1000000}};
  return to_label(session);
}

TEST(Revival, ADeadSandboxWithItsFilesIsStillASession) {
  World world;
  const auto session = world.create_dormant("t");
  EXPECT_EQ(world.sessions.find_thread("t"), session);
  EXPECT_EQ(session->sandbox, nullptr);
  EXPECT_EQ(world.sessions.pool().used(), 0u);
}

TEST(Revival, TheNextCommandBringsItBackUnderItsOldId) {
  World world;
  const auto session = world.create_dormant("t");
  EXPECT_NO_THROW(world.execute(session)->get());
  ASSERT_TRUE(session->sandbox);
  EXPECT_EQ(session->sandbox->id(), session->id);
  EXPECT_EQ(world.sessions.pool().used(), 1u);
  const auto& spec = world.provider.sandboxes.at(session->id)->spec;
  EXPECT_EQ(spec.idle, session->spec.idle);
  EXPECT_EQ(from_label(spec.label)->thread, "t");
}

TEST(Revival, TenCommandsAtOnceBringItBackOnce) {
  World world;
  const auto session = world.create_dormant("t");
  const unsigned before = world.provider.creations;
  world.provider.hold();
  std::vector<decltype(world.execute(session))> all;
  for (int i = 0; i < 10; ++i) all.push_back(world.execute(session));
  EXPECT_EQ(world.provider.creations, before + 1);
  world.provider.let_go();
  world.loop.settle();
  for (const auto& outcome : all) EXPECT_NO_THROW(outcome->get());
  EXPECT_EQ(world.provider.creations, before + 1);
  EXPECT_EQ(world.sessions.pool().used(), 1u);
}

TEST(Revival, AFailureReachesAllThatWaitAndTheNextTryWorks) {
  World world;
  const auto session = world.create_dormant("t");
  world.provider.failures = 1;
  world.provider.hold();
  const auto first = world.execute(session);
  const auto second = world.execute(session);
  world.provider.let_go();
  world.loop.settle();
  EXPECT_THROW(first->get(), Error);
  EXPECT_THROW(second->get(), Error);
  EXPECT_EQ(world.sessions.pool().used(), 0u);
  EXPECT_NO_THROW(world.execute(session)->get());
}

TEST(Revival, ADormantOneCanExpireAndBeRemoved) {
  World world;
  const auto first = world.create_dormant("a");
  const auto second = world.create_dormant("b");
  world.provider.die(first->id, false);
  EXPECT_EQ(world.sessions.find_thread("a"), nullptr);
  EXPECT_TRUE(world.loop.run(world.sessions.remove(second->id)));
  EXPECT_EQ(world.provider.destroyed, std::vector<std::string>{second->id});
  EXPECT_EQ(world.sessions.pool().used(), 0u);
}

// A clean-up that arrives while the sandbox comes back wins: nothing of it may stay.
TEST(Revival, ASessionRemovedMeanwhileLeavesNoSandboxBehind) {
  World world;
  const auto session = world.create_dormant("t");
  world.provider.hold();
  const auto command = world.execute(session);
  EXPECT_TRUE(world.loop.run(world.sessions.remove(session->id)));
  world.provider.let_go();
  world.loop.settle();
  EXPECT_TRUE(command->over);
  EXPECT_EQ(world.sessions.find(session->id), nullptr);
  EXPECT_TRUE(world.provider.sandboxes.empty());
  EXPECT_EQ(world.sessions.pool().used(), 0u);
}

// It comes back and dies again before those that waited for it are on.
TEST(Revival, ASandboxThatDiesAgainAtOnceIsAnErrorForThoseThatWaited) {
  World world;
  const auto session = world.create_dormant("t");
  world.provider.hold();
  const auto first = world.execute(session);
  const auto second = world.execute(session);
  world.provider.on_start = [&](sandbox::FakeProcess& process) {
    process.end({});
    if (world.provider.sandboxes.contains(session->id)) world.provider.die(session->id, true);
  };
  world.provider.let_go();
  world.loop.settle();
  EXPECT_TRUE(first->over);
  EXPECT_TRUE(second->over);
}

TEST(Revival, RespectsTheCapacity) {
  World world{settings(0, 1)};
  const auto dormant = world.create_dormant("a");
  world.create("b");
  EXPECT_THROW(world.execute(dormant)->get(), Error);
  EXPECT_LE(world.sessions.pool().used(), 1u);
}

TEST(Adoption, SessionsThatAreAliveAreFoundByIdAndThread) {
  World world;
  world.provider.found = {{"id-1", label_of("id-1", "t"), true}};
  world.loop.run(world.sessions.open());
  const auto session = world.sessions.find_thread("t");
  ASSERT_TRUE(session);
  EXPECT_EQ(session->id, "id-1");
  EXPECT_TRUE(session->sandbox);
  EXPECT_EQ(session->created, WallTime{std::chrono::seconds{1000000}});
  EXPECT_EQ(world.sessions.pool().used(), 1u);
  EXPECT_EQ(world.create("t"), session);
}

TEST(Adoption, AThreadIsWhoseRowSaysSo) {
  for (const bool removed_first : {true, false}) {
    World world;
    const sandbox::Found removed{"id-1", label_of("id-1", "t"), true};
    const sandbox::Found next{"id-2", label_of("id-2", "t"), true};
    world.provider.found = {removed, next};
    if (!removed_first) std::swap(world.provider.found[0], world.provider.found[1]);
    StoredSession row = from_label(next.label).value();
    world.loop.run(world.parts.store.put(std::move(row)));
    world.loop.run(world.sessions.open());
    const auto session = world.sessions.find_thread("t");
    ASSERT_TRUE(session);
    EXPECT_EQ(session->id, "id-2") << removed_first;
    EXPECT_TRUE(world.sessions.find("id-1")) << "its files are there until it expires";
  }
}

TEST(Adoption, OnesThatOnlyHaveTheirFilesComeBackOnTheFirstCommand) {
  World world;
  world.provider.found = {{"id-1", label_of("id-1", "t"), false}};
  world.loop.run(world.sessions.open());
  const auto session = world.sessions.find_thread("t");
  ASSERT_TRUE(session);
  EXPECT_FALSE(session->sandbox);
  EXPECT_TRUE(world.provider.adopted.empty());
  EXPECT_EQ(world.sessions.pool().used(), 0u);
  EXPECT_NO_THROW(world.execute(session)->get());
  EXPECT_TRUE(world.provider.sandboxes.contains("id-1"));
}

TEST(Adoption, WhatHasAnUnknownLabelIsDestroyed) {
  World world;
  world.provider.found = {{"a", "not json", true},
                          {"b", "{}", false},
                          {"c", "[1]", true},
                          {"d", "{\"session\":\"d\",\"idle_ms\":0}", true},
                          {"e", "{\"session\":5,\"idle_ms\":1}", true}};
  world.loop.run(world.sessions.open());
  EXPECT_EQ(world.sessions.count(), 0u);
  EXPECT_EQ(world.provider.destroyed, (std::vector<std::string>{"a", "b", "c", "d", "e"}));
}

TEST(Adoption, ReadySandboxesGoIntoThePool) {
  World world{settings(2, 10)};
  const std::string label = world.sessions.pool().ready_label();
  world.provider.found = {{"p-1", label, true}, {"p-2", label, true}, {"p-3", "ready other", true}};
  world.loop.run(world.sessions.open());
  EXPECT_EQ(world.sessions.pool().ready(), 2u);
  EXPECT_EQ(world.provider.destroyed, std::vector<std::string>{"p-3"});
  EXPECT_EQ(world.sessions.pool().used(), 0u);
  EXPECT_EQ(world.create("t")->id, "p-1");
}

TEST(Adoption, OneFailureDoesNotStopTheOthers) {
  struct Broken : sandbox::FakeProvider {
    using FakeProvider::FakeProvider;
    awaitable<std::shared_ptr<sandbox::Sandbox>> adopt(sandbox::Found which) override {
      if (which.id == "bad") throw Error{Code::not_found, "it died just now"};
      return FakeProvider::adopt(std::move(which));
    }
  };
  TestLoop loop;
  Broken provider{loop.executor()};
  set_log(LogLevel::off, false);
  TestParts parts;
  Sessions sessions{loop.executor(), parts.with(provider), TestParts::settings(settings(0, 10))};
  provider.found = {{"bad", label_of("bad", "b"), true}, {"good", label_of("good", "g"), true}};
  loop.run(sessions.open());
  EXPECT_TRUE(sessions.find_thread("g"));
  loop.run(sessions.close());
  set_log(LogLevel::info, false);
}

TEST(Label, ComesBackWithOddCharacters) {
  for (const std::string& odd :
       {std::string{"plain"}, std::string{"a\"b\\c\n\t/"}, std::string{"\xc3\xa9\xf0\x9f\x98\x80"},
        std::string{"{}[],:"}, std::string(512, 'x'), std::string{" "}}) {
    StoredSession session;
    session.id = "id-1";
    session.thread = odd;
    session.user = odd;
    session.policy = odd;
    session.provider = odd;
    session.environment = odd;
    session.agent = odd;
    session.idle = 1234567ms;
    session.created = WallTime{std::chrono::seconds{1700000000}};
    const auto back = from_label(to_label(session));
    ASSERT_TRUE(back) << odd;
    EXPECT_EQ(back->id, "id-1");
    EXPECT_EQ(back->thread, odd);
    EXPECT_EQ(back->user, odd);
    EXPECT_EQ(back->provider, odd);
    EXPECT_EQ(back->environment, odd);
    EXPECT_EQ(back->agent, odd);
    EXPECT_EQ(back->idle, 1234567ms);
    EXPECT_EQ(back->created, session.created);
  }
}

}  // namespace
}  // namespace tb::session
