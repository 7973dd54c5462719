// SPDX-License-Identifier: Apache-2.0
#include "store/schema.h"

#include <gtest/gtest.h>

#include <fstream>

#include "os/test_dir.h"

namespace tb::store {
namespace {

class SchemaTest : public testing::Test {
 protected:
  SchemaTest() : file_(dir_ / "x.db"), connection_(dir_ / "x.db") {}

  os::TestDir dir_;
  std::ofstream file_;  // SQLite is told not to make it
  Connection connection_;
};

TEST_F(SchemaTest, EachStepIsTakenOnceAndInOrder) {
  const char* const first[] = {"CREATE TABLE a (x)"};
  const char* const both[] = {"CREATE TABLE a (x)", "ALTER TABLE a RENAME TO b"};
  migrate(connection_, first);
  EXPECT_EQ(connection_.number("PRAGMA user_version"), 1);
  migrate(connection_, both);
  migrate(connection_, both);
  EXPECT_EQ(connection_.number("PRAGMA user_version"), 2);
  EXPECT_EQ(connection_.text("SELECT group_concat(name) FROM sqlite_schema"), "b");
}

TEST_F(SchemaTest, AStepThatFailsLeavesNothing) {
  const char* const steps[] = {"CREATE TABLE a (x)", "CREATE TABLE b (x); CREATE TABLE a (x)"};
  EXPECT_THROW(migrate(connection_, steps), SqliteError);
  EXPECT_EQ(connection_.number("PRAGMA user_version"), 1);
  EXPECT_EQ(connection_.text("SELECT group_concat(name) FROM sqlite_schema"), "a");
  EXPECT_FALSE(connection_.in_transaction());
}

TEST_F(SchemaTest, SessionsOfTheFirstVersionAreNative) {
  migrate(connection_, migrations().first(1));
  connection_.run(
      "INSERT INTO sessions (id, thread, user, policy, idle_ms, created_ms, last_activity_ms) "
      "VALUES ('a', 't', 'u', 'open', 1, 2, 3)");
  migrate(connection_, migrations());
  EXPECT_EQ(connection_.text("SELECT provider || environment || agent FROM sessions"), "native");
}

TEST_F(SchemaTest, SessionsOfBeforeTenantsAreTheDefaultTenants) {
  migrate(connection_, migrations().first(3));
  const auto insert = [&](const char* id, const char* tenant) {
    connection_.run((std::string{"INSERT INTO sessions (id, thread, user, policy, idle_ms, "
                                 "created_ms, last_activity_ms"} +
                     (*tenant ? ", tenant" : "") + ") VALUES ('" + id + "', 't', '', '', 1, 2, 3" +
                     tenant + ")")
                        .c_str());
  };
  insert("a", "");
  migrate(connection_, migrations());
  EXPECT_EQ(connection_.number("SELECT count(*) FROM sessions WHERE tenant = ''"), 1);
  EXPECT_THROW(insert("b", ""), SqliteError);
  insert("c", ", 'acme'");
}

TEST_F(SchemaTest, ANewerVersionIsRefused) {
  connection_.run("PRAGMA user_version=7");
  try {
    migrate(connection_, migrations());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    EXPECT_NE(std::string{error.what()}.find("version 7"), std::string::npos) << error.what();
  }
}

TEST_F(SchemaTest, AnAbsurdVersionIsDamage) {
  for (const char* version : {"PRAGMA user_version=-5", "PRAGMA user_version=16777217"}) {
    connection_.run(version);
    try {
      migrate(connection_, migrations());
      FAIL();
    } catch (const SqliteError& error) {
      EXPECT_TRUE(error.damaged());
    }
  }
}

}  // namespace
}  // namespace tb::store
