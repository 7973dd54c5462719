// SPDX-License-Identifier: Apache-2.0
#include "storage/session_logs.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/test_loop.h"
#include "os/fd.h"
#include "os/test_dir.h"

namespace tb::storage {
namespace {

namespace fs = std::filesystem;

class SessionLogsTest : public ::testing::Test {
 protected:
  std::string read(SessionLogs& logs, const std::string& session, std::size_t most = 1 << 20) {
    return loop_.run(logs.read(session, "", most));  // after what was written before
  }
  std::string place(const std::string& session) { return dir_.path() + "/session_" + session; }

  TestLoop loop_;
  os::TestDir dir_;
};

TEST_F(SessionLogsTest, KeepsFactsAndEventsInOrder) {
  SessionLogs logs{dir_.path(), {}};
  logs.begin("s", {{"user_id", "u"}});
  logs.write("s", {{"event", "one"}});
  logs.write("s", {{"event", "two"}});
  logs.write("unknown", {{"event", "lost"}});
  logs.keep_agent_file("s", "state.json", "{}");
  logs.end("s", {{"ended", "removed"}});
  const std::string text = read(logs, "s");
  EXPECT_LT(text.find("one"), text.find("two"));
  EXPECT_FALSE(logs.follows("s"));
  EXPECT_EQ(read(logs, "unknown"), "");
  const std::string facts = os::read_file(place("s") + "/session.json");
  for (const char* part : {"user_id", "ended_at", "removed"}) {
    EXPECT_NE(facts.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(os::read_file(place("s") + "/agent/state.json"), "{}");
}

TEST_F(SessionLogsTest, KeepsTheLastEventsOfMany) {
  SessionLogs logs{dir_.path(), {.per_session = 1000_B}};
  logs.begin("s", {{"user_id", "u"}});
  for (int i = 0; i < 100; ++i) logs.write("s", {{"n", i}});
  const std::string text = read(logs, "s");
  EXPECT_LE(text.size(), 1000u);
  EXPECT_NE(text.find("\"n\":99"), std::string::npos);
  const std::string end = read(logs, "s", 100);
  EXPECT_LE(end.size(), 100u);
  EXPECT_EQ(end.front(), '{');
}

TEST_F(SessionLogsTest, OfOneTenantAreNothingToAnother) {
  SessionLogs logs{dir_.path(), {}};
  logs.begin("s", {{"tenant", "acme"}});
  logs.write("s", {{"event", "one"}});
  EXPECT_NE(loop_.run(logs.read("s", "acme", 1000)), "");
  EXPECT_EQ(loop_.run(logs.read("s", "", 1000)), "");
  os::replace_file(place("s") + "/session.json", "torn", 0600);
  EXPECT_EQ(loop_.run(logs.read("s", "", 1000)), "");
}

TEST_F(SessionLogsTest, ForgetsTheOldestOfTooManyButNoneThatLives) {
  SessionLogs logs{dir_.path(), {.sessions = 2}};
  for (const char* id : {"a", "b", "c", "live"}) {
    logs.begin(id, {});
    if (std::string{id} != "live") logs.end(id, {});
  }
  read(logs, "live");
  fs::last_write_time(place("a"), fs::file_time_type::clock::now() - std::chrono::hours{2});
  fs::last_write_time(place("b"), fs::file_time_type::clock::now() - std::chrono::hours{1});
  EXPECT_EQ(loop_.run(logs.sweep()), 2u);
  EXPECT_FALSE(fs::exists(place("a")));
  EXPECT_FALSE(fs::exists(place("b")));
  EXPECT_TRUE(fs::exists(place("live")));
}

TEST_F(SessionLogsTest, NeverLeavesItsDirectory) {
  SessionLogs logs{dir_.path(), {}};
  logs.begin("../x", {});
  EXPECT_FALSE(logs.follows("../x"));
  EXPECT_EQ(read(logs, "../x"), "");
  EXPECT_TRUE(fs::is_empty(dir_.path()));
}

}  // namespace
}  // namespace tb::storage
