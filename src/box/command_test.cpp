// SPDX-License-Identifier: Apache-2.0
#include "box/command.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace tb::box {
namespace {

bool has(const std::vector<std::string>& list, const std::string& entry) {
  return std::find(list.begin(), list.end(), entry) != list.end();
}

sandbox::Command shell(std::string script) {
  sandbox::Command command;
  command.script = std::move(script);
  return command;
}

TEST(Command, InputGoesWithTheStartOnlyWhenItIsAll) {
  sandbox::Command whole = shell("cat");
  whole.input = "text";
  const guest::Start closed = to_start(3, whole);
  EXPECT_EQ(closed.id, 3u);
  EXPECT_EQ(closed.input, "text");
  EXPECT_EQ(closed.input_mode, guest::InputMode::whole);
  EXPECT_EQ(whole.input, "");
  sandbox::Command kept = shell("cat");
  kept.input = "text";
  kept.keep_stdin_open = true;
  const guest::Start open = to_start(4, kept);
  EXPECT_EQ(open.input, "");
  EXPECT_EQ(open.input_mode, guest::InputMode::open);
  EXPECT_EQ(kept.input, "text");
}

TEST(Command, ATerminalHasASizeAndAName) {
  sandbox::Command command = shell("vi");
  EXPECT_TRUE(has(to_start(1, command).env, "TERM=dumb"));
  command = shell("vi");
  command.terminal = sandbox::Terminal{50, 132};
  guest::Start start = to_start(1, command);
  EXPECT_EQ(start.terminal, 1);
  EXPECT_EQ(start.rows, 50u);
  EXPECT_EQ(start.columns, 132u);
  EXPECT_TRUE(has(start.env, "TERM=xterm-256color"));
  command = shell("vi");
  command.terminal = sandbox::Terminal{};
  command.env = {{"TERM", "vt100"}};
  start = to_start(1, command);
  EXPECT_TRUE(has(start.env, "TERM=vt100"));
  EXPECT_FALSE(has(start.env, "TERM=xterm-256color"));
}

TEST(Command, SizesThatNoTerminalHasAreRefused) {
  for (const unsigned bad : {0u, 65536u, ~0u}) {
    sandbox::Command command = shell("vi");
    command.terminal = sandbox::Terminal{bad, 80};
    EXPECT_THROW(validate(command), Error) << bad;
    command.terminal = sandbox::Terminal{24, bad};
    EXPECT_THROW(validate(command), Error) << bad;
  }
  sandbox::Command command = shell("vi");
  command.terminal = sandbox::Terminal{1, 65535};
  validate(command);
}

TEST(Command, IsDescribedByItsScriptOrItsWords) {
  sandbox::Command command = shell("echo hi");
  command.tag = "greeting";
  command.terminal = sandbox::Terminal{};
  const sandbox::ProcessInfo info = describe(command);
  EXPECT_EQ(info.command, "echo hi");
  EXPECT_EQ(info.tag, "greeting");
  EXPECT_EQ(info.cwd, "/workspace");
  EXPECT_TRUE(info.terminal);
  sandbox::Command words;
  words.argv = {"ls", "-l", "a b"};
  EXPECT_EQ(describe(words).command, "ls -l a b");
  EXPECT_FALSE(describe(words).terminal);
}

TEST(Command, OfALongOneTheBeginningIsRemembered) {
  EXPECT_EQ(describe(shell(std::string(1 << 20, 'x'))).command, std::string(4096, 'x'));
  sandbox::Command words;
  words.argv.assign(10000, "word");
  EXPECT_EQ(describe(words).command.size(), 4096u);
  sandbox::Command tagged = shell("x");
  tagged.tag = std::string(257, 't');
  EXPECT_THROW(validate(tagged), Error);
}

TEST(Command, InAShellIsTextWithoutStdinOrTerminal) {
  sandbox::Command command = shell("cd /tmp");
  command.shell = 3;
  validate(command);
  EXPECT_EQ(describe(command).shell, 3u);
  sandbox::Command copy = command;
  const guest::Start start = to_start(8, copy);
  EXPECT_EQ(start.kind, guest::Kind::run);
  EXPECT_EQ(start.shell, 3u);
  sandbox::Command words = command;
  words.script.clear();
  words.argv = {"ls"};
  EXPECT_THROW(validate(words), Error);
  sandbox::Command fed = command;
  fed.input = "x";
  EXPECT_THROW(validate(fed), Error);
  sandbox::Command typed = command;
  typed.terminal = sandbox::Terminal{};
  EXPECT_THROW(validate(typed), Error);
}

TEST(Note, ComesBackAsItWas) {
  sandbox::ProcessInfo info;
  info.tag = std::string{"a\0\xff", 3};
  info.command = "echo\n";
  info.cwd = "/tmp";
  info.terminal = true;
  info.started = std::chrono::system_clock::time_point{std::chrono::microseconds{1234567890123456}};
  info.pid = 42;
  info.shell = 6;
  const std::string note = to_note(info);
  sandbox::ProcessInfo back;
  ASSERT_TRUE(from_note(note, back));
  EXPECT_EQ(to_note(back), note);
  EXPECT_EQ(back.tag, info.tag);
  EXPECT_EQ(back.started, info.started);
  EXPECT_EQ(back.pid, 42);
  EXPECT_EQ(back.shell, 6u);
  sandbox::ProcessInfo older;  // as they were before there were shells
  ASSERT_TRUE(from_note(std::string_view{note}.substr(0, note.size() - 4), older));
  EXPECT_EQ(older.shell, 0u);
  EXPECT_FALSE(from_note(note.substr(1), back));
  EXPECT_FALSE(from_note("", back));
  EXPECT_EQ(back.pid, 42);
}

TEST(Command, ANoteCarriesWhoIsTold) {
  sandbox::Command command = shell("true");
  command.notify_url = "http://example.org/hook";
  command.tag = "tag";
  const sandbox::ProcessInfo info = describe(command);
  sandbox::ProcessInfo read;
  ASSERT_TRUE(from_note(to_note(info), read));
  EXPECT_EQ(read.notify_url, "http://example.org/hook");
  EXPECT_EQ(read.started, info.started);
  EXPECT_EQ(read.tag, "tag");
  command.notify_url = std::string(2049, 'x');
  EXPECT_THROW(validate(command), Error);
}

TEST(Command, ANoteOfAnEarlierVersionIsReadWithoutIt) {
  sandbox::Command command = shell("true");
  command.key = "key";
  std::string note = to_note(describe(command));
  note.resize(note.size() - 4);  // the length of what is not there
  sandbox::ProcessInfo read;
  ASSERT_TRUE(from_note(note, read));
  EXPECT_EQ(read.key, "key");
  EXPECT_EQ(read.notify_url, "");
  note.resize(note.size() - 1);
  EXPECT_FALSE(from_note(note, read));
}

}  // namespace
}  // namespace tb::box
