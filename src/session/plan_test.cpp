// SPDX-License-Identifier: Apache-2.0
// Sessions of environments, agents and several providers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "base/test_loop.h"
#include "os/test_dir.h"
#include "sandbox/fake_provider.h"
#include "session/label.h"
#include "session/memory_store.h"
#include "session/sessions.h"

namespace tb::session {
namespace {

// Its sandboxes can't be listed while it is away.
struct Cloud : sandbox::FakeProvider {
  using FakeProvider::FakeProvider;
  std::string problem;
  awaitable<std::vector<sandbox::Found>> list() override {
    if (!problem.empty()) throw Error{Code::unavailable, problem};
    return FakeProvider::list();
  }
};

struct World {
  os::TestDir dir;
  TestLoop loop;
  sandbox::FakeProvider native{loop.executor()};
  Cloud cloud{loop.executor()};
  MemoryStore store;
  Metrics metrics;
  Events events{metrics};
  registry::Registry registry = registry::Registry::load();
  Providers providers;
  std::optional<Sessions> sessions;

  World() {
    set_log(LogLevel::off, false);
    providers.add(kNative, native);
    providers.add("e2b", cloud, Providers::Takes::sandbox_template,
                  [this] { return cloud.problem; });
    begin();
  }
  ~World() {
    loop.run(sessions->close());
    set_log(LogLevel::info, false);
  }
  void begin() {
    PoolSettings pool;
    pool.size = 0;
    pool.capacity = 50;
    pool.kind.environment = "image:/usual";
    sessions.emplace(loop.executor(), Sessions::Parts{providers, store, events, registry},
                     Sessions::Settings{pool, "open", 7min});
  }
  void restart() {
    loop.run(sessions->close());
    begin();
    loop.run(sessions->open());
  }
  void load(const std::string& path, const std::string& yaml) {
    std::filesystem::create_directories(std::filesystem::path{dir / path}.parent_path());
    std::ofstream{dir / path} << yaml;
    registry = registry::Registry::load(dir.path());
  }
  std::shared_ptr<Session> make(SessionSpec spec) {
    return loop.run(sessions->get_or_create(std::move(spec))).session;
  }
  awaitable<bool> wake(std::shared_ptr<Session> session) {
    const Use use = co_await sessions->use(session);
    co_return use.sandbox().alive();
  }
  std::string refusal(SessionSpec spec, Code code) {
    try {
      make(std::move(spec));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    return "";
  }
};

SessionSpec of(const std::string& environment, const std::string& provider = {}) {
  SessionSpec spec;
  spec.environment = environment;
  spec.provider = provider;
  spec.idle = Milliseconds{0};
  return spec;
}

TEST(Plan, WithoutAnEnvironmentASessionIsAsTheServerIs) {
  World world;
  const auto session = world.make(of(""));
  EXPECT_EQ(session->spec.provider, "native");
  EXPECT_EQ(session->spec.policy, "open");
  EXPECT_EQ(session->spec.idle, 7min);
  EXPECT_EQ(world.native.sandboxes.at(session->id)->spec.environment, "image:/usual");
}

TEST(Plan, AnEnvironmentSaysWhatASandboxIsMadeOf) {
  World world;
  const auto here = world.make(of("python-basic"));
  const sandbox::SandboxSpec& spec = world.native.sandboxes.at(here->id)->spec;
  EXPECT_EQ(spec.limits.memory, 512_MiB);
  EXPECT_EQ(spec.limits.cpu_quota, 50'000u);
  EXPECT_EQ(spec.environment, "image:/usual");
  EXPECT_EQ(here->surroundings.variables.at(0).first, "PYTHONPATH");
  const auto there = world.make(of("e2b-python"));
  EXPECT_EQ(there->spec.provider, "e2b");
  EXPECT_EQ(there->spec.idle, 300s);
  EXPECT_EQ(world.cloud.sandboxes.at(there->id)->spec.environment, "Python3");
}

TEST(Plan, ARequestsProviderWinsAndMayTakeNamesOfItsOwn) {
  World world;
  EXPECT_EQ(world.make(of("e2b-python", "native"))->spec.provider, "native");
  const auto session = world.make(of("my-template", "e2b"));
  EXPECT_EQ(world.cloud.sandboxes.at(session->id)->spec.environment, "my-template");
  EXPECT_NE(world.refusal(of("my-template", "native"), Code::invalid).find("Bash, Node, Python3"),
            std::string::npos);
}

TEST(Plan, AnAgentBringsItsEnvironment) {
  World world;
  SessionSpec spec = of("");
  spec.agent = "ml_data_scientist";
  const auto session = world.make(spec);
  EXPECT_EQ(session->spec.environment, "e2b-python");
  EXPECT_EQ(session->spec.agent, "ml_data_scientist");
  spec.agent = "nobody";
  EXPECT_NE(world.refusal(spec, Code::invalid).find("code_executor"), std::string::npos);
}

TEST(Plan, AProviderInTroubleSaysWhyAndOthersGoOn) {
  World world;
  world.cloud.problem = "the key was refused";
  EXPECT_EQ(world.refusal(of("e2b-python"), Code::unavailable),
            "The provider e2b can't be used: the key was refused");
  EXPECT_EQ(world.sessions->pool().used(), 0u);
  EXPECT_TRUE(world.make(of("Python3")));
}

TEST(Plan, VariablesOfAnEnvironmentAreNotTheClients) {
  World world;
  // A client could not set this one.
  world.load("environments/x.yaml",
             "name: x\npolicy: strict\nenvironment: {PYTHONPATH: /x, PATH: /usr/bin}\n");
  const auto session = world.make(of("x"));
  sandbox::Command command;
  command.script = "ls";
  const auto started = world.loop.run(world.sessions->start(session, command, {}));
  const auto& process = world.native.sandboxes.at(session->id)->started.at(0);
  EXPECT_EQ(process->command.env.at(0).first, "PYTHONPATH");
  command.env = {{"PATH", "/tmp"}};
  EXPECT_THROW(world.loop.run(world.sessions->start(session, command, {})), PolicyError);
}

TEST(Plan, AShellHasTheVariablesOfItsEnvironmentOnceAndForAll) {
  World world;
  world.load("environments/x.yaml",
             "name: x\npolicy: strict\nenvironment: {PYTHONPATH: /x, MODE: fast}\n");
  const auto session = world.make(of("x"));
  sandbox::ShellSpec spec;
  spec.env = {{"MODE", "slow"}};
  const auto shell = world.loop.run(world.sessions->open_shell(session, std::move(spec), {}));
  const auto& box = world.native.sandboxes.at(session->id);
  const Sessions::Variables all{{"PYTHONPATH", "/x"}, {"MODE", "fast"}, {"MODE", "slow"}};
  EXPECT_EQ(box->shell_list.at(0)->spec.env, all);
  sandbox::Command command;
  command.script = "ls";
  command.shell = shell->id();
  const auto started = world.loop.run(world.sessions->start(session, command, {}));
  EXPECT_TRUE(box->started.at(0)->command.env.empty());
  spec.env = {{"PATH", "/tmp"}};
  EXPECT_THROW(world.loop.run(world.sessions->open_shell(session, std::move(spec), {})),
               PolicyError);
}

TEST(Plan, TheNamesComeBackAfterARestart) {
  World world;
  SessionSpec spec = of("");
  spec.thread = "t";
  spec.agent = "ml_data_scientist";
  const auto before = world.make(spec);
  const std::string label = world.cloud.sandboxes.at(before->id)->label();
  world.cloud.found = {{before->id, label, true}};
  world.restart();
  const auto after = world.sessions->find_thread("t");
  ASSERT_TRUE(after);
  EXPECT_EQ(after->spec.agent, "ml_data_scientist");
  EXPECT_EQ(after->spec.environment, "e2b-python");
  EXPECT_EQ(after->spec.provider, "e2b");
  EXPECT_EQ(after->kind, before->kind);
  EXPECT_EQ(from_label(label)->environment, "e2b-python");
}

TEST(Plan, SessionsOfAProviderThatIsAwaySleepUntilItIsBack) {
  World world;
  SessionSpec spec = of("e2b-python");
  spec.thread = "t";
  const std::string id = world.make(spec)->id;
  world.cloud.problem = "no route to host";
  world.restart();
  const auto session = world.sessions->find_thread("t");
  ASSERT_TRUE(session);
  EXPECT_EQ(session->sandbox, nullptr);
  EXPECT_EQ(world.store.sessions().size(), 1u);
  EXPECT_THROW(world.loop.run(world.wake(session)), Error);
  world.cloud.problem.clear();
  world.cloud.sandboxes.clear();
  EXPECT_NO_THROW(world.loop.run(world.wake(session)));
  EXPECT_EQ(session->sandbox->id(), id);
}

TEST(Plan, AProviderThatAnsweredAndDoesNotKnowASandboxEndsItsSession) {
  World world;
  SessionSpec spec = of("e2b-python");
  spec.thread = "t";
  world.make(spec);
  world.restart();
  EXPECT_FALSE(world.sessions->find_thread("t"));
  EXPECT_TRUE(world.store.sessions().empty());
}

TEST(Plan, AnEnvironmentThatIsGoneLeavesItsSessionUsable) {
  World world;
  world.load("environments/x.yaml", "name: x\nresources: {memory: 64Mi}\n");
  SessionSpec spec = of("x");
  spec.thread = "t";
  const auto before = world.make(spec);
  world.native.found = {{before->id, world.native.sandboxes.at(before->id)->label(), true}};
  world.registry = registry::Registry::load();
  world.restart();
  const auto after = world.sessions->find_thread("t");
  ASSERT_TRUE(after);
  EXPECT_EQ(after->spec.environment, "x");
  EXPECT_EQ(after->kind.limits, sandbox::Limits{});
}

TEST(Plan, WhatIsKeptReadyFollowsTheRegistry) {
  World world;
  world.load("environments/x.yaml", "name: x\nwarm_pool: 2\nresources: {memory: 64Mi}\n");
  world.loop.run(world.sessions->open());
  world.loop.settle();
  EXPECT_EQ(world.sessions->pool().ready(), 2u);
  const auto session = world.make(of("x"));
  EXPECT_EQ(world.metrics.pool_hits.value(), 1u);
  world.load("environments/x.yaml", "name: x\n");
  world.sessions->restock();
  world.loop.settle();
  EXPECT_EQ(world.sessions->pool().ready(), 0u);
}

TEST(Plan, MountsAreRefusedWhereNobodyMakesThem) {
  World world;
  world.load("environments/x.yaml", "name: x\nmounts: [\"a:/b\"]\n");
  EXPECT_NE(world.refusal(of("x"), Code::invalid).find("can't mount"), std::string::npos);
}

}  // namespace
}  // namespace tb::session
