// SPDX-License-Identifier: Apache-2.0
#include "code/channel.h"

#include <gtest/gtest.h>

#include "base/test_loop.h"
#include "code/stopper.h"
#include "sandbox/fake_provider.h"

namespace tb::code {
namespace {

class ChannelTest : public testing::Test {
 protected:
  ChannelTest() {
    sandbox::Command command;
    command.keep_stdin_open = true;
    process = std::make_shared<sandbox::FakeProcess>(loop.executor(), 1, std::move(command));
    process->input_is_open = true;
  }
  void say(Frame::Kind kind, const std::string& data) {
    Frame frame;
    frame.kind = kind;
    frame.data = data;
    process->print(encode_frame(frame));
  }

  TestLoop loop;
  std::shared_ptr<sandbox::FakeProcess> process;
};

TEST_F(ChannelTest, TellsFramesStraysAndTheEnd) {
  Channel channel{process};
  auto first = loop.start(channel.next(1h));
  EXPECT_FALSE(first->over);
  say(Frame::Kind::out, "a");
  EXPECT_EQ(loop.finish(first)->data, "a");
  process->err = "past the driver";
  auto second = loop.start(channel.next(1h));
  EXPECT_EQ(loop.finish(second)->kind, Frame::Kind::stray);
  say(Frame::Kind::end, "last");
  process->end({});
  auto third = loop.start(channel.next(1h));
  EXPECT_EQ(loop.finish(third)->data, "last");
  auto fourth = loop.start(channel.next(1h));
  EXPECT_FALSE(loop.finish(fourth).has_value());
}

TEST_F(ChannelTest, ASilenceIsToldWhenSomebodyAsks) {
  Channel channel{process};
  Nudge wake{loop.executor()};
  auto next = loop.start(channel.next(1h, &wake));
  EXPECT_FALSE(next->over);
  wake();
  EXPECT_EQ(loop.finish(next)->kind, Frame::Kind::silence);
}

TEST_F(ChannelTest, AcknowledgesWhatHasArrived) {
  Channel channel{process};
  for (int i = 0; i < 3; ++i) say(Frame::Kind::out, std::string(30000, 'x'));
  for (int i = 0; i < 3; ++i) loop.finish(loop.start(channel.next(1h)));
  EXPECT_NE(process->input.find("ack"), std::string::npos);
}

TEST_F(ChannelTest, SyncSkipsWhatWasMeantForAnother) {
  process->print("half a frame of another server's");
  Channel channel{process};
  auto synced = loop.start(channel.sync(1h));
  process->print("more of that");
  EXPECT_FALSE(synced->over);
  const std::string mark = process->input.substr(process->input.size() - 36);
  say(Frame::Kind::synced, mark + "for whom");
  EXPECT_EQ(loop.finish(synced), "for whom");
  say(Frame::Kind::ready, "");
  EXPECT_EQ(loop.finish(loop.start(channel.next(1h)))->kind, Frame::Kind::ready);
}

TEST_F(ChannelTest, SyncWithOneThatHasEndedFindsNothing) {
  Channel channel{process};
  auto synced = loop.start(channel.sync(1h));
  process->end({});
  EXPECT_FALSE(loop.finish(synced).has_value());
}

TEST_F(ChannelTest, StoppingAsksBeforeItForces) {
  const auto stopper = std::make_shared<Stopper>(loop.executor(), process);
  stopper->interrupt();
  ASSERT_EQ(process->signals.size(), 1u);
  EXPECT_EQ(process->signals[0], (std::pair<int, bool>{2, false}));
  EXPECT_TRUE(stopper->interrupted());
  EXPECT_FALSE(stopper->killed());
  stopper->over();
  stopper->stop();
  EXPECT_EQ(process->signals.size(), 1u) << "the call is over";
  EXPECT_FALSE(process->exit());
}

}  // namespace
}  // namespace tb::code
