// SPDX-License-Identifier: Apache-2.0
#include "session/events.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json.hpp>

#include "base/test_log.h"
#include "base/test_loop.h"
#include "sandbox/fake_provider.h"

namespace tb::session {
namespace {

namespace json = boost::json;

const Who kWho{.user = "user-123456789",
               .thread = "thread-123456789",
               .session = "session-123456789",
               .request = "r-1"};

sandbox::Exit exit_with(int code, sandbox::Cause cause = sandbox::Cause::exited) {
  sandbox::Exit exit;
  exit.code = code;
  exit.cause = cause;
  exit.wall = 1999us;
  return exit;
}

class EventsTest : public testing::Test {
 protected:
  // What `act` logs, without the time.
  template <class Act>
  std::string logged(Act act, bool as_json = false) {
    CapturedLog captured{LogLevel::info, as_json};
    act(events_);
    std::string text = captured.text();
    return as_json ? text : text.substr(std::min(text.find('['), text.size()));
  }
  std::uint64_t commands(CommandOutcome outcome) { return metrics_.commands[outcome].value(); }
  std::uint64_t limits(Limit limit) { return metrics_.limits_exceeded[limit].value(); }

  Metrics metrics_;
  Events events_{metrics_};
};

TEST_F(EventsTest, KeysAreInOneOrderAndIdsAreShort) {
  EXPECT_EQ(logged([](Events& e) { e.command_ended(kWho, "ls -l", exit_with(0)); }),
            "[SANDBOX] event=command_executed user=user-123 thread=thread-12345 "
            "session=session-1234 command=\"ls -l\" exit_code=0 duration_ms=1 request_id=r-1\n");
  EXPECT_EQ(logged([](Events& e) { e.session_created({.user = "u", .session = "s"}, 12ms); }),
            "[SANDBOX] event=session_created user=u session=s duration_ms=12\n");
}

TEST_F(EventsTest, EveryEventHasItsName) {
  const struct {
    const char* event;
    std::function<void(Events&)> act;
  } rows[] = {
      {"session_created", [](Events& e) { e.session_created(kWho, 1ms); }},
      {"session_creation_failed", [](Events& e) { e.session_creation_failed(kWho, "x"); }},
      {"session_reused", [](Events& e) { e.session_reused(kWho); }},
      {"session_expired", [](Events& e) { e.session_expired(kWho, 1h); }},
      {"session_cleaned_up", [](Events& e) { e.session_cleaned_up(kWho, 1min); }},
      {"session_cleanup_failed", [](Events& e) { e.session_cleanup_failed(kWho, "x"); }},
      {"sandbox_lost", [](Events& e) { e.sandbox_lost(kWho); }},
      {"session_revived", [](Events& e) { e.session_revived(kWho, 1ms); }},
      {"session_revival_failed", [](Events& e) { e.session_revival_failed(kWho, "x"); }},
      {"session_adopted", [](Events& e) { e.session_adopted(kWho, true); }},
      {"session_adoption_failed", [](Events& e) { e.session_adoption_failed(kWho, "x"); }},
      {"command_executed", [](Events& e) { e.command_ended(kWho, "x", exit_with(0)); }},
      {"command_failed", [](Events& e) { e.command_ended(kWho, "x", exit_with(1)); }},
      {"command_failed", [](Events& e) { e.command_not_started(kWho, "x", "why"); }},
      {"validation_failed",
       [](Events& e) { e.validation_failed(kWho, "rm", Refused::forbidden, "no"); }},
      {"file_uploaded", [](Events& e) { e.file_uploaded(kWho, 5_B, 1ms); }},
      {"file_upload_failed", [](Events& e) { e.file_upload_failed(kWho, "x"); }},
      {"file_downloaded", [](Events& e) { e.file_downloaded(kWho, 5_B, 1ms); }},
      {"file_download_failed", [](Events& e) { e.file_download_failed(kWho, "x"); }},
      {"file_list_failed", [](Events& e) { e.file_list_failed(kWho, "x"); }},
      {"resource_limit_exceeded", [](Events& e) { e.resource_limit_exceeded(kWho, Limit::pool); }},
  };
  for (const auto& row : rows) {
    const std::string text = logged(row.act);
    const std::string begin = std::string{"[SANDBOX] event="} + row.event +
                              " user=user-123 thread=thread-12345 session=session-1234 ";
    EXPECT_TRUE(text.starts_with(begin)) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
    const json::object line = json::parse(logged(row.act, true)).as_object();
    EXPECT_EQ(line.at("event").as_string(), row.event);
    EXPECT_EQ(line.at("thread").as_string(), "thread-12345");
    EXPECT_EQ(line.at("request_id").as_string(), "r-1");
    EXPECT_TRUE(line.contains("time") && line.contains("level"));
  }
}

TEST_F(EventsTest, JsonHasTheSameKeys) {
  const std::string text =
      logged([](Events& e) { e.command_ended(kWho, "echo \"a\"\n", exit_with(3)); }, true);
  const json::object line = json::parse(text).as_object();
  EXPECT_EQ(line.at("event").as_string(), "command_failed");
  EXPECT_EQ(line.at("user").as_string(), "user-123");
  EXPECT_EQ(line.at("session").as_string(), "session-1234");
  EXPECT_EQ(line.at("command").as_string(), "echo \"a\"\n");
  EXPECT_EQ(line.at("exit_code").as_int64(), 3);
  EXPECT_EQ(line.at("duration_ms").as_int64(), 1);
}

TEST_F(EventsTest, ALongCommandIsCutBetweenCharacters) {
  std::string command = "echo ";
  for (int i = 0; i < 200; ++i) command += "\xe2\x82\xac";
  const std::string text =
      logged([&](Events& e) { e.command_ended({}, command, exit_with(0)); }, true);
  const json::object line = json::parse(text).as_object();
  const json::string& shown = line.at("command").as_string();
  EXPECT_EQ(std::string_view{shown}, std::string_view{command}.substr(0, 5 + 95 * 3));
  EXPECT_EQ(text.find("\xef\xbf\xbd"), std::string::npos);
}

// H24: nobody writes a line of ours.
TEST_F(EventsTest, WhatClientsSendNeverMakesALine) {
  const std::string evil = "x\r\n[SANDBOX] event=forged\x1b[2J\xc2\x85\xff";
  const Who who{.user = "\nu\n", .thread = "\x1b[31mt", .session = "\r", .request = evil};
  const std::string text = logged([&](Events& e) {
    e.command_ended(who, evil, exit_with(0));
    e.validation_failed(who, evil, Refused::syntax, evil);
    e.file_upload_failed(who, evil);
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
  EXPECT_EQ(text.find_first_of("\r\x1b"), std::string::npos) << text;
}

TEST_F(EventsTest, HugeTextIsCut) {
  const std::string huge(1 << 20, 'x');
  const std::string text = logged([&](Events& e) {
    e.validation_failed({.user = huge, .thread = huge, .session = huge}, huge, Refused::empty,
                        huge);
  });
  EXPECT_LT(text.size(), 700u);
}

TEST_F(EventsTest, CommandsCanBeKeptOutOfTheLog) {
  Events quiet{metrics_, false};
  const std::string text = logged([&](Events&) {
    Events& e = quiet;
    e.command_ended(kWho, "secret", exit_with(0));
    e.command_not_started(kWho, "secret", "why");
    e.validation_failed(kWho, "secret", Refused::not_allowed, "'secret' is not allowed");
  });
  EXPECT_EQ(text.find("secret"), std::string::npos) << text;
  EXPECT_EQ(text.find("command="), std::string::npos) << text;
  EXPECT_NE(text.find("reason=not_allowed"), std::string::npos) << text;
}

TEST_F(EventsTest, MoveTheMetrics) {
  set_log(LogLevel::off, false);
  events_.session_created(kWho, 1ms);
  events_.session_reused(kWho);
  events_.session_expired(kWho, 10min);
  events_.session_cleaned_up(kWho, 10s);
  events_.sandbox_lost(kWho);
  events_.session_revived(kWho, 1ms);
  events_.validation_failed(kWho, "rm", Refused::forbidden, "no");
  events_.file_uploaded(kWho, 5_KiB, 1ms);
  events_.file_downloaded(kWho, 7_B, 1ms);
  events_.files_listed();
  events_.file_upload_failed(kWho, "x");
  events_.resource_limit_exceeded(kWho, Limit::file_count);
  set_log(LogLevel::info, false);
  EXPECT_EQ(metrics_.sessions_created.value(), 1u);
  EXPECT_EQ(metrics_.sessions_reused.value(), 1u);
  EXPECT_EQ(metrics_.sessions_expired.value(), 1u);
  EXPECT_EQ(metrics_.sessions_cleaned_up.value(), 1u);
  EXPECT_EQ(metrics_.session_lifetime.count(), 2u);
  EXPECT_EQ(metrics_.session_lifetime.sum(), 610);
  EXPECT_EQ(metrics_.sessions_lost.value(), 1u);
  EXPECT_EQ(metrics_.sessions_revived.value(), 1u);
  EXPECT_EQ(metrics_.validation_failures[Refused::forbidden].value(), 1u);
  EXPECT_EQ(metrics_.uploaded.value(), 5120u);
  EXPECT_EQ(metrics_.downloaded.value(), 7u);
  EXPECT_EQ(metrics_.file_operations[FileAction::list].value(), 1u);
  EXPECT_EQ(metrics_.file_failures[FileAction::upload].value(), 1u);
  EXPECT_EQ(limits(Limit::file_count), 1u);
}

TEST_F(EventsTest, ACommandIsCountedByItsEnd) {
  const struct {
    int code;
    sandbox::Cause cause;
    CommandOutcome outcome;
  } rows[] = {{0, sandbox::Cause::exited, CommandOutcome::exited0},
              {1, sandbox::Cause::exited, CommandOutcome::exited_nonzero},
              {139, sandbox::Cause::signal, CommandOutcome::signal},
              {124, sandbox::Cause::timeout, CommandOutcome::timeout},
              {137, sandbox::Cause::oom, CommandOutcome::oom},
              {137, sandbox::Cause::killed, CommandOutcome::killed},
              {159, sandbox::Cause::policy, CommandOutcome::policy},
              {137, sandbox::Cause::lost, CommandOutcome::lost}};
  for (const auto& row : rows) {
    const std::string text =
        logged([&](Events& e) { e.command_ended(kWho, "x", exit_with(row.code, row.cause)); });
    EXPECT_EQ(commands(row.outcome), 1u) << text;
    EXPECT_EQ(text.find(" cause=") == std::string::npos, row.cause == sandbox::Cause::exited);
  }
  EXPECT_EQ(metrics_.command_duration.count(), std::size(rows));
}

TEST_F(EventsTest, LimitsThatACommandMetAreEvents) {
  sandbox::Exit exit = exit_with(124, sandbox::Cause::timeout);
  exit.limits_hit = {"memory", "cpu", "something new"};
  const std::string text = logged([&](Events& e) { e.command_ended(kWho, "x", exit); });
  EXPECT_NE(text.find("limit=command_timeout"), std::string::npos);
  EXPECT_NE(text.find("limit=memory"), std::string::npos);
  EXPECT_EQ(text.find("limit=cpu"), std::string::npos);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
  EXPECT_EQ(limits(Limit::command_timeout), 1u);
  EXPECT_EQ(limits(Limit::memory), 1u);
  EXPECT_EQ(limits(Limit::cpu), 1u);
}

TEST_F(EventsTest, CommandsAreCountedWhileTheyRunAndOnceWhenTheyEnd) {
  TestLoop loop;
  sandbox::FakeProcess process{loop.executor(), 1, {}};
  const std::string text = logged([&](Events& events) {
    events.command_started(process, kWho, "sleep 1");
    EXPECT_EQ(metrics_.commands_running.value(), 1);
    process.end(exit_with(3));
    process.end(exit_with(3));
  });
  EXPECT_EQ(metrics_.commands_running.value(), 0);
  EXPECT_EQ(metrics_.commands[CommandOutcome::exited_nonzero].value(), 1u);
  EXPECT_NE(text.find("command_failed"), std::string::npos) << text;
}

}  // namespace
}  // namespace tb::session
