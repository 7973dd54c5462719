// SPDX-License-Identifier: Apache-2.0
#include "session/pool.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "base/test_loop.h"
#include "sandbox/fake_provider.h"

namespace tb::session {
namespace {

struct World {
  TestLoop loop;
  sandbox::FakeProvider provider{loop.executor()};
  Providers providers;
  Metrics metrics;
  Pool pool;

  World(std::size_t size, std::size_t capacity) : World(settings(size, capacity)) {}
  explicit World(PoolSettings settings)
      : pool(loop.executor(), with(providers, provider), std::move(settings), &metrics) {
    set_log(LogLevel::off, false);
  }
  ~World() {
    loop.run(pool.close());
    set_log(LogLevel::info, false);
  }
  static Providers& with(Providers& providers, sandbox::Provider& provider) {
    providers.add(kNative, provider);
    return providers;
  }
  static PoolSettings settings(std::size_t size, std::size_t capacity) {
    PoolSettings pool;
    pool.size = size;
    pool.capacity = capacity;
    pool.kind.environment = "image:/x";
    pool.kind.limits.pids = 77;
    return pool;
  }
  void open() {
    pool.open();
    loop.settle();
  }
  auto take() { return loop.start(pool.take()); }
  static Kind other() {
    Kind kind;
    kind.programs = Programs{Programs::Names{"other"}};
    return kind;
  }
  // Of a kind that is not ready, unless the pool keeps it.
  auto take_other() { return loop.start(pool.take(other())); }
  void wait_ready(std::size_t count) {
    auto task = [this, count]() -> awaitable<bool> {
      asio::steady_timer timer{loop.executor()};
      while (pool.ready() != count) {
        timer.expires_after(1ms);
        co_await timer.async_wait(asio::use_awaitable);
      }
      co_return true;
    };
    loop.run(task());
  }
};

TEST(Pool, IsFilledInTheBackground) {
  World world{3, 10};
  EXPECT_EQ(world.pool.ready(), 0u);
  world.open();
  EXPECT_EQ(world.pool.ready(), 3u);
  EXPECT_EQ(world.provider.creations, 3u);
  for (const auto& [id, sandbox] : world.provider.sandboxes) {
    EXPECT_TRUE(world.pool.would_make(sandbox->spec.label));
    EXPECT_EQ(sandbox->spec.environment, "image:/x");
    EXPECT_EQ(sandbox->spec.limits.pids, 77u);
    EXPECT_EQ(sandbox->spec.idle, 0ms);
  }
}

TEST(Pool, GivesAReadyOneAndMakesAnother) {
  World world{2, 10};
  world.open();
  const auto sandbox = world.take()->get();
  EXPECT_TRUE(sandbox);
  EXPECT_EQ(world.pool.used(), 1u);
  EXPECT_EQ(world.pool.ready(), 2u);
  EXPECT_EQ(world.provider.creations, 3u);
  EXPECT_NE(world.take()->get(), sandbox);
}

TEST(Pool, MakesOneWhenNoneIsReady) {
  World world{0, 10};
  EXPECT_TRUE(world.take()->get());
  EXPECT_EQ(world.pool.used(), 1u);
}

TEST(Pool, NeverHoldsMoreThanTheCapacity) {
  World world{5, 6};
  world.open();
  for (int i = 0; i < 6; ++i) {
    EXPECT_NO_THROW(world.take()->get()) << i;
    EXPECT_LE(world.pool.ready() + world.pool.used(), 6u);
  }
  EXPECT_THROW(world.take()->get(), Error);
  EXPECT_EQ(world.provider.sandboxes.size(), 6u);
}

TEST(Pool, IsFilledAgainWhenOneInUseIsGone) {
  World world{1, 2};
  world.open();
  world.take()->get();
  world.take()->get();
  EXPECT_EQ(world.pool.ready(), 0u);
  world.pool.gone();
  world.loop.settle();
  EXPECT_EQ(world.pool.ready(), 1u);
}

TEST(Pool, AReadyOneThatEndedIsReplaced) {
  World world{2, 10};
  world.open();
  EXPECT_TRUE(world.pool.drop(world.provider.sandboxes.begin()->first));
  EXPECT_FALSE(world.pool.drop("unknown"));
  world.loop.settle();
  EXPECT_EQ(world.pool.ready(), 2u);
}

TEST(Pool, NeverGivesADeadOne) {
  World world{2, 10};
  world.open();
  for (const auto& [id, sandbox] : world.provider.sandboxes) sandbox->is_alive = false;
  EXPECT_TRUE(world.take()->get()->alive());
  EXPECT_EQ(world.pool.used(), 1u);
}

TEST(Pool, AFailedCreationGivesItsPlaceBack) {
  World world{0, 1};
  world.provider.failures = 1;
  EXPECT_THROW(world.take()->get(), Error);
  EXPECT_EQ(world.pool.used(), 0u);
  EXPECT_NO_THROW(world.take()->get());
}

TEST(Pool, SurvivesAFailureInTheBackground) {
  World world{1, 10};
  world.provider.failures = 1;
  world.open();
  EXPECT_EQ(world.pool.ready(), 0u);  // tries again after a pause
  EXPECT_NO_THROW(world.take()->get());
}

// While the background makes the last one that fits, a request for it can wait that long.
TEST(Pool, TheLastPlaceIsNotRefusedWhileItIsBeingFilled) {
  World world{1, 1};
  world.provider.hold();
  world.open();
  const auto taken = world.take();
  world.provider.let_go();
  world.loop.settle();
  EXPECT_NO_THROW(taken->get());
  EXPECT_EQ(world.provider.creations, 1u);
}

TEST(Pool, TheLastPlaceIsForOneOfAnotherKindToo) {
  World world{1, 1};
  world.provider.hold();
  world.open();
  const auto taken = world.take_other();
  world.provider.let_go();
  world.loop.settle();
  EXPECT_NO_THROW(taken->get());
  EXPECT_EQ(world.pool.used(), 1u);
  EXPECT_EQ(world.provider.sandboxes.size(), 1u);
}

TEST(Pool, AReadyOneGivesWayToOneOfAnotherKind) {
  World world{2, 2};
  world.open();
  world.provider.hold();
  world.pool.drop(world.provider.sandboxes.begin()->first);
  world.provider.sandboxes.erase(world.provider.sandboxes.begin());
  world.loop.settle();  // one is ready, one is being made
  const auto taken = world.take_other();
  world.provider.let_go();
  world.loop.settle();
  EXPECT_NO_THROW(taken->get());
  EXPECT_EQ(world.pool.ready() + world.pool.used(), 2u);
  EXPECT_EQ(world.provider.sandboxes.size(), 2u);
}

TEST(Pool, AReadyOneGivesWayToOneThatComesBack) {
  World world{2, 2};
  world.open();
  world.pool.reserve();
  world.loop.run(world.pool.give_way());
  EXPECT_EQ(world.pool.ready() + world.pool.used(), 2u);
  EXPECT_EQ(world.provider.destroyed.size(), 1u);
}

TEST(Pool, ShrinksToTheCapacityOfToday) {
  World world{1, 3};
  for (const char* id : {"a", "b", "c"}) {
    sandbox::Found found;
    found.id = id;
    world.pool.add_ready(world.loop.run(world.provider.adopt(found)));
  }
  world.pool.count_used();
  world.open();
  EXPECT_EQ(world.pool.ready(), 2u);
}

TEST(Pool, TheMinimumIsMadeAtOnceAndTheRestAfterTheDelay) {
  PoolSettings settings = World::settings(4, 20);
  settings.minimum = 2;
  settings.refill_delay = 50ms;
  World world{settings};
  world.open();
  EXPECT_EQ(world.pool.ready(), 4u);
  for (int i = 0; i < 4; ++i) world.take()->get();
  EXPECT_EQ(world.pool.ready(), 2u);
  world.wait_ready(4);
}

TEST(Pool, ShrinksToTheMinimumWhenNobodyComes) {
  PoolSettings settings = World::settings(3, 20);
  settings.minimum = 1;
  settings.idle = 20ms;
  settings.sweep = 5ms;
  World world{settings};
  world.open();
  world.wait_ready(1);
  EXPECT_EQ(world.provider.destroyed.size(), 2u);
  world.take()->get();
  world.wait_ready(3);
}

TEST(Pool, KnowsReadyOnesOfOtherSettingsApart) {
  World world{1, 2};
  EXPECT_TRUE(World(1, 2).pool.would_make(world.pool.ready_label()));
  EXPECT_TRUE(World(2, 9).pool.would_make(world.pool.ready_label()));
  std::vector<PoolSettings> others(5, World::settings(1, 2));
  others[0].kind.environment = "host";
  others[1].kind.limits.pids = 78;
  others[2].kind.limits.memory = 1_GiB;
  others[3].kind.limits.disk = 1_GiB;
  others[4].kind.programs = Programs{Programs::Names{"ls"}};
  for (const PoolSettings& other : others) {
    EXPECT_FALSE(World{other}.pool.would_make(world.pool.ready_label()));
  }
}

TEST(Pool, KeepsOtherKindsReadyToo) {
  World world{1, 10};
  world.pool.keep({{World::other(), 2}});
  world.open();
  EXPECT_EQ(world.pool.ready(), 3u);
  EXPECT_EQ(world.pool.ready(World::other()), 2u);
  EXPECT_TRUE(world.take_other()->get());
  EXPECT_EQ(world.metrics.pool_hits.value(), 1u);
  EXPECT_EQ(world.pool.ready(World::other()), 2u);  // made again
  // Two environments may mean the same kind.
  world.pool.keep({{World::other(), 2}, {World::other(), 1}});
  world.loop.settle();
  EXPECT_EQ(world.pool.ready(World::other()), 3u);
}

TEST(Pool, LetsAKindGoThatIsNotKeptAnyMore) {
  World world{1, 10};
  world.pool.keep({{World::other(), 2}});
  world.open();
  world.pool.keep({});
  world.loop.settle();
  EXPECT_EQ(world.pool.ready(), 1u);
  EXPECT_EQ(world.provider.sandboxes.size(), 1u);
  world.pool.keep({});
  EXPECT_EQ(world.pool.ready(World::other()), 0u);
}

TEST(Pool, AKindThatIsDroppedWhileOneIsMadeLeavesNothing) {
  World world{0, 10};
  world.provider.hold();
  world.pool.keep({{World::other(), 1}});
  world.open();
  world.pool.keep({});
  world.provider.let_go();
  world.loop.settle();
  EXPECT_EQ(world.pool.ready(), 0u);
  EXPECT_TRUE(world.provider.sandboxes.empty());
}

TEST(Pool, AKindThatCanNotBeMadeDoesNotStopTheOthers) {
  World world{1, 10};
  Kind absent;
  absent.provider = "docker";
  world.pool.keep({{absent, 1}});
  world.open();
  EXPECT_EQ(world.pool.ready(), 1u);
  world.take()->get();
  EXPECT_EQ(world.pool.ready(), 1u);
}

TEST(Pool, ClosesWhileItIsFilling) {
  World world{3, 10};
  world.provider.hold();
  world.open();
  EXPECT_TRUE(world.loop.start(world.pool.close())->over);
}

TEST(Pool, AdoptedOnesAreGivenFirstAndCounted) {
  World world{1, 3};
  sandbox::Found found;
  found.id = "old";
  world.pool.add_ready(world.loop.run(world.provider.adopt(found)));
  world.pool.count_used();
  world.open();
  EXPECT_EQ(world.pool.ready(), 1u);
  EXPECT_EQ(world.take()->get()->id(), "old");
  EXPECT_EQ(world.pool.used(), 2u);
}

TEST(Pool, CountsWhatItDoes) {
  World world{1, 2};
  world.provider.failures = 1;
  EXPECT_THROW(world.take()->get(), Error);  // nothing is ready yet
  EXPECT_EQ(world.metrics.pool_misses.value(), 1u);
  EXPECT_EQ(world.metrics.sandbox_creations_failed.value(), 1u);
  world.open();
  world.take()->get();
  world.take()->get();
  EXPECT_THROW(world.take()->get(), Error);
  EXPECT_EQ(world.metrics.pool_hits.value(), 2u);
  EXPECT_EQ(world.metrics.pool_misses.value(), 1u);
  EXPECT_EQ(world.metrics.pool_exhausted.value(), 1u);
  EXPECT_EQ(world.metrics.sandbox_create.count(), 2u);
}

}  // namespace
}  // namespace tb::session
