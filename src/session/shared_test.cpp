// SPDX-License-Identifier: Apache-2.0
// Sessions of a provider that other programs have too.
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

struct SharedProvider : sandbox::FakeProvider {
  using FakeProvider::FakeProvider;
  bool runs = true;  // what is joined is there
  std::vector<std::string> released;

  awaitable<std::shared_ptr<sandbox::Sandbox>> join(sandbox::Found which) override {
    if (!runs) throw Error{Code::not_found, "sandbox " + which.id};
    co_return co_await adopt(std::move(which));
  }
  void release(sandbox::Sandbox& sandbox) override { released.push_back(sandbox.id()); }
};

Sessions::Settings shared_settings() {
  PoolSettings pool;
  pool.size = 0;
  return {std::move(pool), "open", 30min, Milliseconds{0}, true};
}

struct World {
  TestLoop loop;
  SharedProvider provider{loop.executor()};
  TestParts parts;
  Sessions sessions{loop.executor(), parts.with(provider), shared_settings()};

  World() { set_log(LogLevel::off, false); }
  ~World() {
    loop.run(sessions.close());
    set_log(LogLevel::info, false);
  }
  std::string execute(const std::shared_ptr<Session>& session) {
    sandbox::Command command;
    command.script = "true";
    return loop.run(sessions.execute(session, std::move(command), {}))->info().command;
  }
  static sandbox::Found of_another(const std::string& id, const std::string& thread) {
    StoredSession stored;
    stored.id = id;
    stored.thread = thread;
    stored.policy = "open";
    stored.idle = 30min;
    return {id, to_label(stored), true};
  }
};

TEST(SharedSessions, WhatOthersHaveIsLeftAloneAtTheStart) {
  World world;
  world.provider.found = {World::of_another("theirs", "t"), {"making", "", true}};
  world.loop.run(world.sessions.open());
  EXPECT_TRUE(world.provider.adopted.empty());
  EXPECT_TRUE(world.provider.destroyed.empty());
  EXPECT_EQ(world.sessions.count(), 0u);
}

TEST(SharedSessions, OneOfAnotherProgramIsJoinedWhenItIsUsed) {
  World world;
  const auto session = world.sessions.remember(World::of_another("theirs", "t"));
  ASSERT_TRUE(session);
  EXPECT_EQ(world.sessions.find_thread("t"), session);
  EXPECT_TRUE(world.provider.adopted.empty());
  world.execute(session);
  EXPECT_EQ(world.provider.adopted, std::vector<std::string>{"theirs"});
  EXPECT_EQ(world.provider.creations, 0u);
}

TEST(SharedSessions, WhatIsNoSessionIsNotRemembered) {
  World world;
  EXPECT_FALSE(world.sessions.remember({"x", "ready host", true}));
  EXPECT_EQ(world.sessions.count(), 0u);
}

TEST(SharedSessions, OneThatWasLetGoIsJoinedAgain) {
  World world;
  const auto session = world.sessions.remember(World::of_another("theirs", "t"));
  world.execute(session);
  EXPECT_EQ(world.sessions.pool().used(), 1u);
  world.sessions.release(session);
  world.sessions.release(session);  // once is enough
  EXPECT_EQ(world.provider.released, std::vector<std::string>{"theirs"});
  EXPECT_EQ(world.sessions.pool().used(), 0u);
  EXPECT_EQ(world.sessions.find("theirs"), session);
  world.execute(session);
  EXPECT_EQ(world.provider.adopted.size(), 2u);
}

TEST(SharedSessions, OneThatHasEndedIsMadeAgainFromItsFiles) {
  World world;
  world.provider.runs = false;
  const auto session = world.sessions.remember(World::of_another("theirs", "t"));
  world.execute(session);
  EXPECT_EQ(world.provider.creations, 1u);
  EXPECT_TRUE(world.provider.sandboxes.contains("theirs"));
}

TEST(SharedSessions, ReadyOnesAreNobodysUntilTheyAreTaken) {
  TestLoop loop;
  sandbox::FakeProvider provider{loop.executor()};
  PoolSettings settings;
  settings.size = 2;
  settings.labelled = false;
  Providers providers;
  providers.add(kNative, provider);
  Pool pool{loop.executor(), providers, std::move(settings)};
  pool.open();
  loop.settle();
  EXPECT_EQ(provider.sandboxes.size(), 2u);
  EXPECT_EQ(pool.ready(), 2u);
  for (const auto& [id, sandbox] : provider.sandboxes) EXPECT_EQ(sandbox->spec.label, "");
  loop.run(pool.close());
}

}  // namespace
}  // namespace tb::session
