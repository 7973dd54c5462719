// SPDX-License-Identifier: Apache-2.0
#include "sandbox/fake_provider.h"

#include <gtest/gtest.h>

#include "base/test_loop.h"

namespace tb::sandbox {
namespace {

Command talk() {
  Command command;
  command.argv = {"cat", "-"};
  command.tag = "echo";
  command.input = "a";
  command.keep_stdin_open = true;
  return command;
}

TEST(FakeProcess, TakesInputUntilItIsClosed) {
  TestLoop loop;
  FakeProcess process{loop.executor(), 1, talk()};
  EXPECT_EQ(process.info().command, "cat -");
  EXPECT_EQ(process.info().tag, "echo");
  loop.run(process.write_input("b"));
  process.input_full = true;
  const auto waiting = loop.start(process.write_input("c"));
  EXPECT_FALSE(waiting->over);
  process.take_input();
  EXPECT_TRUE(loop.finish(waiting));
  EXPECT_EQ(process.input, "abc");
  process.close_input();
  EXPECT_THROW(loop.run(process.write_input("d")), Error);
  EXPECT_THROW(process.resize(1, 1), Error);
}

TEST(FakeProcess, ATerminalIsResizedAndTypedAnEnd) {
  TestLoop loop;
  Command command = talk();
  command.terminal = Terminal{};
  FakeProcess process{loop.executor(), 1, command};
  process.resize(50, 132);
  EXPECT_EQ(process.command.terminal->columns, 132u);
  process.close_input();
  EXPECT_EQ(process.input, "a\4");
  EXPECT_TRUE(process.input_open());
}

TEST(FakeProcess, WaitersSeeOutputAndItsEnd) {
  TestLoop loop;
  FakeProcess process{loop.executor(), 1, talk()};
  process.background = true;
  const auto first = loop.start(process.wait_output(Stream::out, 0));
  const auto second = loop.start(process.wait_output(Stream::all, 2));
  process.print("hi");
  EXPECT_TRUE(loop.finish(first));
  EXPECT_FALSE(second->over);
  process.signal(9, true);
  loop.settle();
  EXPECT_TRUE(process.exit().has_value());
  EXPECT_FALSE(second->over);
  process.end_background();
  EXPECT_TRUE(loop.finish(second));
  EXPECT_TRUE(process.output_ended(Stream::all));
}

}  // namespace
}  // namespace tb::sandbox
