// SPDX-License-Identifier: Apache-2.0
#include "api/command_fields.h"

#include <gtest/gtest.h>

#include "http/message.h"

namespace tb::api {
namespace {

namespace json = boost::json;

sandbox::Command read(const char* text) { return read_process(json::parse(text).as_object()); }

TEST(ProcessFields, AreAllTaken) {
  const sandbox::Command command = read(R"({
    "argv": ["ls", "-l"], "cwd": "/tmp", "env": {"A": "b"}, "stdin": "x", "stdin_open": true,
    "pty": {"rows": 10, "cols": 20}, "timeout": 1.5, "tag": "t", "idempotency_key": "k"})");
  EXPECT_EQ(command.argv, (std::vector<std::string>{"ls", "-l"}));
  EXPECT_EQ(command.cwd, "/tmp");
  EXPECT_EQ(command.env.at(0).second, "b");
  EXPECT_EQ(command.input, "x");
  EXPECT_TRUE(command.keep_stdin_open);
  ASSERT_TRUE(command.terminal);
  EXPECT_EQ(command.terminal->rows, 10u);
  EXPECT_EQ(command.terminal->columns, 20u);
  EXPECT_EQ(command.timeout, 1500ms);
  EXPECT_EQ(command.tag, "t");
  EXPECT_EQ(command.key, "k");
}

TEST(ProcessFields, HaveDefaults) {
  const sandbox::Command command = read(R"({"command": "true"})");
  EXPECT_EQ(command.script, "true");
  EXPECT_FALSE(command.timeout);
  EXPECT_FALSE(command.terminal);
  EXPECT_FALSE(command.keep_stdin_open);
  EXPECT_TRUE(read(R"({"command": "true", "pty": true})").terminal);
  EXPECT_FALSE(read(R"({"command": "true", "pty": false})").terminal);
}

TEST(ProcessFields, AreRefusedWhenTheyMakeNoSense) {
  for (const char* text :
       {"{}", R"({"command": "a", "argv": ["b"]})", R"({"argv": []})", R"({"argv": [1]})",
        R"({"argv": "ls"})", R"({"command": "a\u0000b"})", R"({"argv": ["a\u0000b"]})",
        R"({"command": "a", "pty": 1})", R"({"command": "a", "pty": {"rows": 0}})",
        R"({"command": "a", "pty": {"cols": 10001}})", R"({"command": "a", "stdin_open": 1})",
        R"({"command": "a", "env": []})", R"({"command": "a", "env": {"A": 1}})",
        R"({"command": "a", "tag": 1})", R"({"command": "a", "timeout": 0})"}) {
    EXPECT_THROW(read(text), http::HttpError) << text;
  }
  const std::string long_key(257, 'k');
  EXPECT_THROW(read_process({{"command", "a"}, {"idempotency_key", long_key}}), http::HttpError);
}

}  // namespace
}  // namespace tb::api
