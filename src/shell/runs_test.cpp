// SPDX-License-Identifier: Apache-2.0
#include "shell/runs.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/test_loop.h"
#include "sandbox/fake_provider.h"

namespace tb::shell {
namespace {

using State = sandbox::Shell::State;

struct Slot {
  std::optional<Run> run;
};

class RunsTest : public testing::Test {
 protected:
  // A process that ends when the test says so, in a shell that runs until then.
  Runs::Start starter() {
    return [this](sandbox::Command command) -> awaitable<std::shared_ptr<sandbox::Process>> {
      if (refuse) throw Error{Code::unavailable, "not today"};
      const auto id = static_cast<std::uint32_t>(begun.size() + 1);
      begun.push_back(
          std::make_shared<sandbox::FakeProcess>(loop.executor(), id, std::move(command)));
      shell->become(State::running);
      co_return begun.back();
    };
  }
  awaitable<void> fill(std::shared_ptr<Slot> slot) {
    sandbox::Command command;
    command.script = "true";
    Runs::Start start = starter();
    slot->run.emplace(co_await runs.start(shell, std::move(command), std::move(start)));
  }
  std::pair<std::shared_ptr<Slot>, std::shared_ptr<Outcome<bool>>> ask() {
    auto slot = std::make_shared<Slot>();
    return {slot, loop.start(fill(slot))};
  }
  void end(std::size_t which, sandbox::Exit exit = {}) {
    begun[which]->end(std::move(exit));
    shell->become(State::waiting);
    loop.settle();
  }

  TestLoop loop;
  Runs runs{loop.executor()};
  std::shared_ptr<sandbox::FakeShell> shell =
      std::make_shared<sandbox::FakeShell>(loop.executor(), 7);
  std::vector<std::shared_ptr<sandbox::FakeProcess>> begun;
  bool refuse = false;
};

TEST_F(RunsTest, OneAtATimeInTheOrderOfAsking) {
  auto [first, a] = ask();
  auto [second, b] = ask();
  auto [third, c] = ask();
  ASSERT_EQ(begun.size(), 1u);
  EXPECT_EQ(begun[0]->command.shell, 7u);
  EXPECT_EQ(runs.waiting(*shell), 2u);
  end(0);
  EXPECT_EQ(begun.size(), 1u) << "the first one is still held";
  first->run.reset();
  loop.settle();
  ASSERT_EQ(begun.size(), 2u);
  EXPECT_TRUE(b->over);
  EXPECT_FALSE(c->over);
  end(1);
  second->run.reset();
  loop.settle();
  EXPECT_TRUE(c->over);
  EXPECT_EQ(runs.waiting(*shell), 0u);
}

TEST_F(RunsTest, WhatNobodyWaitsForAnyMoreStillHasToEnd) {
  auto [first, a] = ask();
  first->run.reset();
  auto [second, b] = ask();
  EXPECT_FALSE(b->over);
  end(0);
  EXPECT_TRUE(b->over);
}

TEST_F(RunsTest, AStartThatFailsHandsOn) {
  refuse = true;
  auto [first, a] = ask();
  EXPECT_THROW(a->get(), Error);
  refuse = false;
  auto [second, b] = ask();
  EXPECT_TRUE(b->get());
}

TEST_F(RunsTest, AClosedShellRunsNothingAndSaysSoToAllWhoWait) {
  auto [first, a] = ask();
  auto [second, b] = ask();
  auto [third, c] = ask();
  loop.run(shell->close());
  first->run.reset();
  loop.settle();
  EXPECT_THROW(b->get(), Error);
  EXPECT_THROW(c->get(), Error);
  auto [late, d] = ask();
  EXPECT_THROW(d->get(), Error);
  EXPECT_EQ(begun.size(), 1u);
}

TEST_F(RunsTest, TooManyAreNotKeptWaiting) {
  std::vector<std::pair<std::shared_ptr<Slot>, std::shared_ptr<Outcome<bool>>>> all;
  for (int i = 0; i < 33; ++i) all.push_back(ask());
  auto [slot, refused] = ask();
  try {
    refused->get();
    FAIL() << "it waits";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::limited);
  }
  while (!all.empty()) all.pop_back();
  for (std::size_t i = 0; i < begun.size(); ++i) end(i);
}

TEST_F(RunsTest, FactsTellWhetherItIsStillTheSameShell) {
  auto [first, a] = ask();
  shell->directory = "/tmp";
  end(0);
  Facts facts = first->run->facts();
  EXPECT_EQ(facts.shell, 7u);
  EXPECT_EQ(facts.cwd, "/tmp");
  EXPECT_FALSE(facts.exited || facts.respawned || facts.restored);
  first->run.reset();

  auto [second, b] = ask();
  shell->ended_by = 2;  // exit 3
  shell->open_again(true);
  end(1);
  facts = second->run->facts();
  EXPECT_TRUE(facts.exited && facts.respawned && facts.restored);
  EXPECT_EQ(facts.generation, 2u);
  second->run.reset();

  auto [third, c] = ask();
  shell->ended_by = 3;
  shell->open_again(false);
  end(2, sandbox::FakeProcess::ended_by(sandbox::Cause::timeout, 124));
  facts = third->run->facts();
  EXPECT_FALSE(facts.exited) << "it was us";
  EXPECT_TRUE(facts.respawned);
  EXPECT_FALSE(facts.restored);
}

}  // namespace
}  // namespace tb::shell
