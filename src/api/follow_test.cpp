// SPDX-License-Identifier: Apache-2.0
#include "api/follow.h"

#include <gtest/gtest.h>

#include "base/test_loop.h"
#include "sandbox/fake_provider.h"

namespace tb::api {
namespace {

using sandbox::Stream;

struct World {
  TestLoop loop;
  std::shared_ptr<sandbox::FakeProcess> process =
      std::make_shared<sandbox::FakeProcess>(loop.executor(), 1, sandbox::Command{});
  std::string out;
  std::string err;
  std::vector<std::uint64_t> offsets;

  Take take() {
    return [this](const Piece& piece) -> awaitable<void> {
      (piece.stream == Stream::err ? err : out) += piece.bytes;
      offsets.push_back(piece.offset);
      co_return;
    };
  }
};

TEST(Follow, HandsOverWhatIsThereAndWhatComes) {
  World world;
  world.process->print("one ");
  const auto following = world.loop.start(follow(world.process, Stream::out, 0, world.take()));
  EXPECT_EQ(world.out, "one ");
  world.process->print("two");
  world.loop.settle();
  EXPECT_EQ(world.out, "one two");
  EXPECT_FALSE(following->over);
  world.process->end({});
  world.loop.settle();
  EXPECT_TRUE(following->over);
}

TEST(Follow, ANudgeIsAnsweredByASignOfLifeAtOnce) {
  World world;
  Nudge nudge{world.loop.executor()};
  int signs = 0;
  Take take = [&](const Piece& piece) -> awaitable<void> {
    signs += piece.sign_of_life() ? 1 : 0;
    world.out += piece.bytes;
    co_return;
  };
  const Following how{Cut::between_characters, &nudge};
  const auto following = world.loop.start(follow(world.process, Stream::out, 0, take, how));
  const auto until_exit = world.loop.start(follow_until_exit(world.process, take));
  EXPECT_EQ(signs, 0);
  nudge();
  world.loop.settle();
  EXPECT_EQ(signs, 1);
  world.process->print("x");
  world.process->end({});
  world.loop.settle();
  EXPECT_TRUE(following->over && until_exit->over);
  EXPECT_EQ(world.out, "xx");
  EXPECT_EQ(signs, 1);
}

TEST(Follow, BeginsAtTheOffset) {
  World world;
  world.process->print("0123456789");
  world.process->end({});
  world.loop.run(follow(world.process, Stream::out, 7, world.take()));
  EXPECT_EQ(world.out, "789");
  EXPECT_EQ(world.offsets, std::vector<std::uint64_t>{7});
}

TEST(Follow, DoesNotCutACharacterOfAProcessThatHasEnded) {
  World world;
  std::string text = "x";
  while (text.size() < 200'000) text += "\xe2\x82\xac";
  std::vector<std::string> pieces;
  Take take = [&pieces](const Piece& piece) -> awaitable<void> {
    pieces.push_back(piece.bytes);
    co_return;
  };
  world.process->print(text);
  world.process->end({});
  world.loop.run(follow(world.process, Stream::out, 0, take));
  ASSERT_GT(pieces.size(), 2u);
  for (const std::string& piece : pieces) EXPECT_EQ(piece.back(), '\xac');
}

TEST(Follow, HandsOverBytesAtOnceToWhoWantsThem) {
  World world;
  const auto following =
      world.loop.start(follow(world.process, Stream::out, 0, world.take(), {Cut::anywhere}));
  world.process->print("a\xe2\x82");
  world.loop.settle();
  EXPECT_EQ(world.out, "a\xe2\x82");
  world.process->end({});
  world.loop.settle();
  EXPECT_TRUE(following->over);
}

TEST(Follow, DoesNotCutACharacter) {
  World world;
  const auto following = world.loop.start(follow(world.process, Stream::out, 0, world.take()));
  world.process->print("a\xe2\x82");
  world.loop.settle();
  EXPECT_EQ(world.out, "a");
  world.process->print("\xac!");
  world.loop.settle();
  EXPECT_EQ(world.out, "a\xe2\x82\xac!");
}

TEST(Follow, HandsOverAnUnfinishedCharacterWhenNoMoreComes) {
  World world;
  world.process->print("a\xe2\x82");
  world.process->end({});
  world.loop.run(follow(world.process, Stream::out, 0, world.take()));
  EXPECT_EQ(world.out, "a\xe2\x82");
}

TEST(FollowUntilExit, KeepsTheStreamsApart) {
  World world;
  const auto following = world.loop.start(follow_until_exit(world.process, world.take()));
  world.process->print("out");
  world.process->print("err", Stream::err);
  world.loop.settle();
  world.process->end({});
  world.loop.settle();
  EXPECT_TRUE(following->over);
  EXPECT_EQ(world.out, "out");
  EXPECT_EQ(world.err, "err");
}

TEST(FollowUntilExit, DoesNotWaitForWhatStaysInTheBackground) {
  World world;
  world.process->background = true;
  world.process->print("x");
  const auto following = world.loop.start(follow_until_exit(world.process, world.take()));
  EXPECT_FALSE(following->over);
  world.process->end({});
  world.loop.settle();
  EXPECT_TRUE(following->over);
  EXPECT_EQ(world.out, "x");
}

TEST(FollowUntilExit, EndsAlthoughTheBackgroundKeepsPrinting) {
  World world;
  world.process->background = true;
  world.process->end({});
  world.process->print("x");
  auto take = [&world](const Piece& piece) -> awaitable<void> {
    world.out += piece.bytes;
    world.process->print("more");
    co_return;
  };
  const auto following = world.loop.start(follow_until_exit(world.process, take));
  EXPECT_TRUE(following->over);
  EXPECT_EQ(world.out, "x");
}

}  // namespace
}  // namespace tb::api
