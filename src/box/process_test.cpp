// SPDX-License-Identifier: Apache-2.0
// A process without a sandbox: the test is the guest and the program, over real pipes and
// terminals.
#include "box/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "base/test_loop.h"
#include "box/command.h"
#include "os/test_dir.h"

namespace tb::box {
namespace {

void make_pipe(os::Fd& in, os::Fd& out, int flags) {
  int ends[2];
  check(::pipe2(ends, O_CLOEXEC | flags), "pipe2");
  in = os::Fd{ends[0]};
  out = os::Fd{ends[1]};
}

void put(const os::Fd& to, std::string_view text) {
  ASSERT_EQ(::write(to.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

// What can be read without waiting.
std::string take(const os::Fd& from) {
  ::fcntl(from.get(), F_SETFL, O_NONBLOCK);
  std::string text(1 << 20, '\0');
  const ssize_t n = ::read(from.get(), text.data(), text.size());
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

class GuestProcessTest : public testing::Test {
 protected:
  // A server's view of the program; the next one takes over where the last one was dropped.
  std::shared_ptr<GuestProcess> serve() {
    auto tell = [this](std::string message) { told.push_back(std::move(message)); };
    const OutputLimits limits{.inline_bytes = 1_MiB, .stored = 64_MiB};
    return std::make_shared<GuestProcess>(loop.executor(), 1, dir / "1", limits, tell);
  }
  std::shared_ptr<GuestProcess> over_pipes() {
    if (!program_in) {
      make_pipe(program_in, guest[2], 0);
      ::fcntl(guest[2].get(), F_SETFL, O_NONBLOCK);
      make_pipe(guest[0], program_out, 0);
      make_pipe(guest[1], program_err, 0);
    }
    return started(guest::Streams::open);
  }
  std::shared_ptr<GuestProcess> over_terminal() {
    if (!program_out) {
      guest[0] = os::Fd{::open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC)};
      check(::unlockpt(guest[0].get()), "unlockpt");
      program_out = os::Fd{check(::open(::ptsname(guest[0].get()), O_RDWR | O_NOCTTY), "slave")};
      termios raw{};
      check(::tcgetattr(program_out.get(), &raw), "tcgetattr");
      ::cfmakeraw(&raw);
      check(::tcsetattr(program_out.get(), TCSANOW, &raw), "tcsetattr");
      make_pipe(guest[1], guest[2], O_NONBLOCK);
    }
    return started(guest::Streams::terminal);
  }
  std::shared_ptr<GuestProcess> started(guest::Streams streams) {
    os::Fd fds[3];
    for (int i = 0; i < 3; ++i) fds[i] = os::duplicate(guest[i]);
    sandbox::ProcessInfo info;
    info.started = std::chrono::system_clock::now();
    info.terminal = streams == guest::Streams::terminal;
    info.tag = "mine";
    guest::Started message;
    message.id = 1;
    message.pid = 17;
    message.streams = streams;
    message.note = to_note(info);
    auto process = serve();
    process->started(message, fds);
    return process;
  }
  bool told_to_close() const {
    Writer out;
    guest::CloseInput{1}.encode(out);
    return std::find(told.begin(), told.end(), out.view()) != told.end();
  }

  os::TestDir dir;
  TestLoop loop;
  std::vector<std::string> told;
  os::Fd guest[3];  // what PID 1 keeps
  os::Fd program_in;
  os::Fd program_out;
  os::Fd program_err;
};

TEST_F(GuestProcessTest, WritesToStdinInTheOrderOfTheCalls) {
  const auto process = over_pipes();
  EXPECT_TRUE(process->input_open());
  process->push_input("first ");
  loop.run(process->write_input("second "));
  loop.run(process->write_input("third"));
  EXPECT_EQ(take(program_in), "first second third");
  EXPECT_FALSE(told_to_close());
}

TEST_F(GuestProcessTest, AWriterWaitsWhileThePipeIsFullAndNothingIsLost) {
  const auto process = over_pipes();
  std::string much(300000, 'a');
  for (std::size_t i = 0; i < much.size(); ++i) much[i] = static_cast<char>('a' + i % 23);
  const auto first = loop.start(process->write_input(much));
  const auto second = loop.start(process->write_input("the end"));
  EXPECT_FALSE(first->over);
  EXPECT_FALSE(second->over);
  std::string got;
  while (got.size() < much.size() + 7) {
    const std::string piece = take(program_in);
    ASSERT_FALSE(piece.empty());
    got += piece;
    loop.settle();
  }
  EXPECT_EQ(got, much + "the end");
  EXPECT_TRUE(first->get());
  EXPECT_TRUE(second->get());
}

TEST_F(GuestProcessTest, WhatIsNotReadInTimeIsTakenBack) {
  const auto process = over_pipes();
  const auto before = loop.start(process->write_input(std::string(70000, 'a')));
  const auto kept = loop.run(process->offer_input(std::string(50000, 'b'), 1ms));
  EXPECT_EQ(kept, 0u);
  const auto after = loop.start(process->write_input("c"));
  std::string got;
  while (!after->over) {
    got += take(program_in);
    loop.settle();
  }
  got += take(program_in);
  EXPECT_EQ(got, std::string(70000, 'a') + "c");
  EXPECT_TRUE(before->get());
}

TEST_F(GuestProcessTest, AnOfferTellsHowMuchThePipeTook) {
  const auto process = over_pipes();
  EXPECT_EQ(loop.run(process->offer_input("all", 1h)), 3u);
  const std::size_t part = loop.run(process->offer_input(std::string(100000, 'x'), 1ms));
  EXPECT_GT(part, 0u);
  EXPECT_LT(part, 100000u);
  std::size_t got = 0;
  for (std::string piece; !(piece = take(program_in)).empty();) {
    got += piece.size();
    if (got == part + 3) break;
  }
  EXPECT_EQ(got, part + 3);
  EXPECT_EQ(loop.run(process->offer_input("more", 1h)), 4u);
}

TEST_F(GuestProcessTest, AClosedStdinGetsWhatWasWrittenBeforeAndRefusesMore) {
  const auto process = over_pipes();
  const auto writer = loop.start(process->write_input(std::string(100000, 'x')));
  process->close_input();
  EXPECT_FALSE(process->input_open());
  EXPECT_FALSE(told_to_close());  // there is more to come
  EXPECT_THROW(loop.run(process->write_input("late")), Error);
  std::size_t got = 0;
  while (got < 100000) {
    got += take(program_in).size();
    loop.settle();
  }
  EXPECT_TRUE(writer->get());
  EXPECT_TRUE(told_to_close());
  guest[2].reset();
  EXPECT_EQ(::read(program_in.get(), &got, 1), 0);  // its end: no copy is left
}

TEST_F(GuestProcessTest, AProgramThatClosesItsStdinIsAConflict) {
  const auto process = over_pipes();
  const auto waiting = loop.start(process->write_input(std::string(100000, 'x')));
  program_in.reset();
  try {
    loop.finish(waiting);
    FAIL() << "it was written to nobody";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::conflict);
  }
  EXPECT_FALSE(process->input_open());
  EXPECT_TRUE(told_to_close());
}

TEST_F(GuestProcessTest, StdinThatWasNeverOpenIsAConflict) {
  const auto process = serve();
  try {
    loop.run(process->write_input("x"));
    FAIL() << "there is no stdin";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::conflict);
  }
  process->close_input();
  EXPECT_THROW(process->resize(1, 1), Error);
}

TEST_F(GuestProcessTest, WithTheProcessItsStdinEnds) {
  const auto process = over_pipes();
  const auto waiting = loop.start(process->write_input(std::string(100000, 'x')));
  process->exited({});
  loop.settle();
  EXPECT_TRUE(waiting->over);
  EXPECT_THROW(waiting->get(), Error);
  EXPECT_FALSE(process->input_open());
}

TEST_F(GuestProcessTest, AnyNumberWaitsForOutput) {
  const auto process = over_pipes();
  const auto one = loop.start(process->wait_output(Stream::out, 0));
  const auto two = loop.start(process->wait_output(Stream::all, 3));
  const auto err = loop.start(process->wait_output(Stream::err, 0));
  put(program_out, "abc");
  EXPECT_TRUE(loop.finish(one));
  EXPECT_FALSE(two->over);
  put(program_err, "d");
  EXPECT_TRUE(loop.finish(two));
  EXPECT_TRUE(loop.finish(err));
  EXPECT_EQ(process->read_output(Stream::all, 0, 100), "abcd");
  const auto end = loop.start(process->wait_output(Stream::out, 3));
  EXPECT_FALSE(process->output_ended(Stream::out));
  program_out.reset();
  EXPECT_TRUE(loop.finish(end));
  EXPECT_TRUE(process->output_ended(Stream::out));
  EXPECT_FALSE(process->output_ended(Stream::all));
}

TEST_F(GuestProcessTest, ALostProcessKeepsWhatItPrintedAndEndsItsWaiters) {
  const auto process = over_pipes();
  loop.settle();
  const auto waiting = loop.start(process->wait_output(Stream::err, 0));
  put(program_out, "last words");
  process->lost();
  EXPECT_TRUE(loop.finish(waiting));
  EXPECT_TRUE(process->output_ended(Stream::all));
  EXPECT_EQ(process->captured(Stream::out).text, "last words");
}

TEST_F(GuestProcessTest, ATerminalIsReadAndWritten) {
  const auto process = over_terminal();
  EXPECT_TRUE(process->info().terminal);
  EXPECT_EQ(process->info().tag, "mine");
  EXPECT_EQ(process->info().pid, 17);
  put(program_out, "prompt> ");
  loop.run(process->wait_output(Stream::out, 7));
  EXPECT_EQ(process->captured(Stream::all).text, "prompt> ");
  EXPECT_TRUE(process->output_ended(Stream::err));
  loop.run(process->write_input("typed"));
  EXPECT_EQ(take(program_out), "typed");
  process->close_input();
  EXPECT_EQ(take(program_out), "\4");
  EXPECT_TRUE(process->input_open());
  process->resize(50, 132);
  winsize size{};
  ASSERT_EQ(::ioctl(program_out.get(), TIOCGWINSZ, &size), 0);
  EXPECT_EQ(size.ws_row, 50);
  EXPECT_EQ(size.ws_col, 132);
  EXPECT_THROW(process->resize(0, 80), Error);
}

TEST_F(GuestProcessTest, WhoTypesIntoATerminalThatIsNotReadWaits) {
  const auto process = over_terminal();
  const std::string much(200000, 'k');
  const auto writer = loop.start(process->write_input(much));
  EXPECT_FALSE(writer->over);
  std::size_t got = 0;
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  while (got < much.size() && std::chrono::steady_clock::now() < deadline) {
    got += take(program_out).size();
    loop.settle();
  }
  EXPECT_EQ(got, much.size());
  EXPECT_TRUE(writer->get());
}

TEST_F(GuestProcessTest, ATerminalEndsWithItsProcessEvenWhenSomebodyHoldsIt) {
  const auto process = over_terminal();
  put(program_out, "bye");
  process->exited({});
  EXPECT_EQ(process->captured(Stream::out).text, "bye");
  EXPECT_TRUE(process->output_ended(Stream::all));
  process->noted();
  EXPECT_TRUE(process->over());
  EXPECT_THROW(process->resize(1, 1), Error);
  EXPECT_THROW(loop.run(process->write_input("x")), Error);
}

TEST_F(GuestProcessTest, TheEndOfATerminalIsNoError) {
  const auto process = over_terminal();
  put(program_out, "all");
  program_out.reset();
  loop.run(process->wait_output(Stream::out, 3));
  EXPECT_TRUE(process->output_ended(Stream::out));
  EXPECT_EQ(process->captured(Stream::out).text, "all");
}

TEST_F(GuestProcessTest, TheNextServerGoesOnWithATerminal) {
  auto process = over_terminal();
  put(program_out, "one ");
  loop.run(process->wait_output(Stream::out, 3));
  put(program_out, "two ");  // not looked at any more
  process.reset();
  // As if the last server had died between the terminal and the file.
  put(guest[2], "(moved) ");
  process = over_terminal();
  EXPECT_EQ(process->captured(Stream::out).text.substr(0, 12), "one (moved) ");
  loop.run(process->wait_output(Stream::out, 15));
  put(program_out, "three");
  loop.run(process->wait_output(Stream::out, 20));
  EXPECT_EQ(process->captured(Stream::out).text, "one (moved) two three");
  loop.run(process->write_input("x"));
  EXPECT_EQ(take(program_out), "x");
}

TEST_F(GuestProcessTest, TheNextServerGoesOnWithStdin) {
  auto process = over_pipes();
  loop.run(process->write_input("one "));
  process.reset();
  process = over_pipes();
  loop.run(process->write_input("two"));
  EXPECT_EQ(take(program_in), "one two");
}

TEST_F(GuestProcessTest, TheGuestKeepsWhatWasPrintedUntilItIsStored) {
  const auto process = over_pipes();
  put(program_out, "printed");
  program_out.reset();
  program_err.reset();
  guest::Exited exited;
  exited.id = 1;
  process->exited(exited);
  EXPECT_EQ(process->captured(Stream::out).text, "printed");
  EXPECT_TRUE(process->output_ended(Stream::all));
  told.clear();  // its stdin is closed
  process->noted();
  process->store_output();
  ASSERT_EQ(told.size(), 2u);
  Writer first;
  guest::Release{1, guest::Release::kExit}.encode(first);
  Writer second;
  guest::Release{1, guest::Release::kOutput}.encode(second);
  EXPECT_EQ(told[0], first.view());
  EXPECT_EQ(told[1], second.view());
  EXPECT_EQ(os::read_file(dir / "1.out"), "printed");
}

TEST_F(GuestProcessTest, SignalsAreToldAndOnlyRealOnes) {
  const auto process = serve();
  for (const int bad : {0, -1, 65}) EXPECT_THROW(process->signal(bad, true), Error) << bad;
  process->signal(15, false);
  Writer out;
  guest::Signal{1, 15, 0}.encode(out);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0], out.view());
}

}  // namespace
}  // namespace tb::box
