// SPDX-License-Identifier: Apache-2.0
// What a shell is told, and which of its words are believed. The test itself plays its bash.
#include "guest/shell.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace tb::guest {
namespace {

class ShellTest : public testing::Test {
 protected:
  ShellTest() {
    EXPECT_EQ(make_place(shell), nullptr);
    EXPECT_EQ(open_sockets(shell, child), nullptr);
  }
  ~ShellTest() override {
    for (const int fd : child) ::close(fd);
  }
  std::string read_line() {
    char buffer[4096];
    const ssize_t n = ::recv(child[0], buffer, sizeof buffer, MSG_DONTWAIT);
    return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string{};
  }
  void say(const std::string& text) {
    ASSERT_EQ(::write(child[2], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string word(const std::string& nonce, const std::string& rest) {
    return nonce + " " + rest + std::string(1, '\0');
  }

  Shell shell;
  int child[3] = {-1, -1, -1};
};

TEST_F(ShellTest, ARunIsALineAndTheQuestionForItsEndAnother) {
  ASSERT_TRUE(feed_run(shell, 5));
  EXPECT_FALSE(has_read_all(shell));
  EXPECT_EQ(read_line().find("\\builtin . " + shell.place + "/r5 </dev/null"), 0u);
  EXPECT_FALSE(has_read_all(shell)) << "the question is not read with the line before it";
  const std::string question = read_line();
  EXPECT_NE(question.find("\"$?\""), std::string::npos);
  EXPECT_EQ(question.find(shell.nonces[0]), std::string::npos) << "a trace would end the run";
  EXPECT_TRUE(has_read_all(shell));
}

TEST_F(ShellTest, OnlyTheNonceEndsARun) {
  ASSERT_TRUE(feed_run(shell, 5));
  say(word(std::string(32, 'a'), "0 h /tmp"));
  say("0 h /tmp" + std::string(1, '\0'));
  EXPECT_FALSE(listen(shell, ::getpid()).any);
  const std::string nonce = shell.nonces[0];
  say("(venv) $ noise\n" + word(nonce, "3 himBs /tmp/a b\nc").substr(0, 20));
  EXPECT_FALSE(listen(shell, ::getpid()).any) << "not whole yet";
  say(word(nonce, "3 himBs /tmp/a b\nc").substr(20));
  const RunEnd end = listen(shell, ::getpid());
  EXPECT_TRUE(end.any && end.synchronous);
  EXPECT_EQ(end.code, 3);
  EXPECT_FALSE(end.restricted);
  EXPECT_EQ(shell.state.cwd, "/tmp/a b\nc");
}

TEST_F(ShellTest, OnlyItsLeaderIsBelieved) {
  ASSERT_TRUE(feed_run(shell, 5));
  const std::string text = word(shell.nonces[0], "0 h /tmp");
  const pid_t other = ::fork();
  if (other == 0) {
    (void)!::write(child[2], text.data(), text.size());
    ::_exit(0);
  }
  ::waitpid(other, nullptr, 0);
  EXPECT_FALSE(listen(shell, ::getpid()).any);
  say(text);
  EXPECT_TRUE(listen(shell, ::getpid()).any);
}

TEST_F(ShellTest, TheNonceOfTheRunBeforeIsWorthNothing) {
  ASSERT_TRUE(feed_run(shell, 5));
  const std::string before = shell.nonces[0];
  ASSERT_TRUE(feed_run(shell, 6));
  say(word(before, "0 h /tmp"));
  EXPECT_FALSE(listen(shell, ::getpid()).any);
}

TEST_F(ShellTest, AfterAnInterruptTheFirstAnswerHasTheStatusAndTheLastOneIsTheEnd) {
  ASSERT_TRUE(feed_run(shell, 5));
  ASSERT_TRUE(feed_question(shell));
  ASSERT_EQ(shell.nonces.size(), 2u);
  say(word(shell.nonces[0], "130 h /tmp"));
  const RunEnd early = listen(shell, ::getpid());
  EXPECT_TRUE(early.any);
  EXPECT_FALSE(early.synchronous);
  say(word(shell.nonces[0], "130 h /tmp") + word(shell.nonces[1], "0 h /tmp"));
  const RunEnd both = listen(shell, ::getpid());
  EXPECT_EQ(both.code, 130);
  EXPECT_TRUE(both.synchronous);
}

TEST_F(ShellTest, ARestrictedShellIsKnown) {
  ASSERT_TRUE(feed_run(shell, 5));
  say(word(shell.nonces[0], "1 hirs /tmp"));
  EXPECT_TRUE(listen(shell, ::getpid()).restricted);
}

TEST_F(ShellTest, MuchNoiseIsNotKept) {
  ASSERT_TRUE(feed_run(shell, 5));
  for (int i = 0; i < 100; ++i) {
    say(std::string(4000, 'x'));
    EXPECT_FALSE(listen(shell, ::getpid()).any);
  }
  EXPECT_LE(shell.heard.size(), 16u << 10);
  say(word(shell.nonces[0], "0 h /tmp"));
  EXPECT_TRUE(listen(shell, ::getpid()).any);
}

TEST_F(ShellTest, WhoeverClosesItsStderrIsNotListenedToForEver) {
  ::close(child[2]);
  child[2] = -1;
  EXPECT_FALSE(listen(shell, ::getpid()).any);
  EXPECT_EQ(shell.words, -1);
}

// Read until nothing is left, one who writes faster than it is read would hold PID 1 for ever.
TEST_F(ShellTest, WhoTalksMuchIsReadInPieces) {
  ASSERT_TRUE(feed_run(shell, 5));
  const int room = 1 << 20;
  ::setsockopt(child[2], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  for (int i = 0; i < 40; ++i) say(std::string(4096, 'y'));
  say(word(shell.nonces[0], "0 h /tmp"));
  EXPECT_FALSE(listen(shell, ::getpid()).any);
  EXPECT_TRUE(listen(shell, ::getpid()).any);
}

TEST_F(ShellTest, ARunHasPipesThatDontEndBeforeTheyAreOpened) {
  Start run;
  run.id = 9;
  run.script = "echo hi";
  Ends ends;
  ASSERT_EQ(place_run(shell, run, ends), nullptr);
  char buffer[8];
  EXPECT_EQ(::read(ends.ours[0], buffer, sizeof buffer), -1);
  EXPECT_EQ(errno, EAGAIN);
  struct stat info{};
  ASSERT_EQ(::stat((shell.place + "/o9").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0622u) << "others write to it and can't take what is in it";
  remove_run(shell, 9);
  EXPECT_NE(::stat((shell.place + "/o9").c_str(), &info), 0);
  ends.close_child();
  EXPECT_EQ(::read(ends.ours[0], buffer, sizeof buffer), 0);
}

TEST_F(ShellTest, SnapshotsAreTakenInTurns) {
  ASSERT_TRUE(feed_snapshot(shell, 0));
  EXPECT_NE(read_line().find("/s 0 0\n"), std::string::npos);
  say("snapshot 0" + std::string(1, '\0'));
  listen(shell, ::getpid());
  EXPECT_EQ(shell.snapshot, 0);
  ASSERT_TRUE(feed_snapshot(shell, 7));
  EXPECT_NE(read_line().find("/s 1 7\n"), std::string::npos);
  ASSERT_TRUE(feed_opening(shell));
  EXPECT_NE(read_line().find("/b 0 "), std::string::npos) << "the new one is not whole yet";
}

TEST(ShellPlace, GoesWithItsShell) {
  std::string place;
  {
    Shell shell;
    ASSERT_EQ(make_place(shell), nullptr);
    place = shell.place;
    EXPECT_EQ(::access(place.c_str(), X_OK), 0);
  }
  EXPECT_NE(::access(place.c_str(), F_OK), 0);
}

}  // namespace
}  // namespace tb::guest
