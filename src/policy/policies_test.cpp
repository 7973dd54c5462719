// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "policy/policy.h"

namespace tb::policy {
namespace {

std::string error_of(std::string_view yaml) {
  try {
    parse_policy(yaml, "mine.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid);
    return error.what();
  }
  return "";
}

TEST(Policies, HasThreeInTheBinary) {
  const Policies policies = Policies::builtin();
  EXPECT_EQ(policies.names(), (std::vector<std::string>{"open", "strict", "wide"}));
  EXPECT_EQ(policies.find("none"), nullptr);
  const Policy& strict = *policies.find("strict");
  EXPECT_TRUE(strict.confines());
  EXPECT_FALSE(strict.allows_terminals());
  EXPECT_TRUE(std::is_sorted(strict.programs().begin(), strict.programs().end()));
  for (const char* name : {"jq", "python3", "tee", "whoami", "["}) {
    EXPECT_TRUE(std::count(strict.programs().begin(), strict.programs().end(), name)) << name;
  }
  EXPECT_FALSE(policies.find("wide")->confines());
  EXPECT_TRUE(policies.find("open")->allows_terminals());
}

TEST(Policies, ReadsOneOfYourOwn) {
  const Policy policy = parse_policy(
      "name: mine\ncommands: [ls]\nforbidden: [rm]\nunresolved: allow\nconfine: false\n", "x");
  EXPECT_EQ(policy.name(), "mine");
  EXPECT_FALSE(policy.check("ls $x"));
  EXPECT_EQ(policy.check("cat")->message, "Command 'cat' not in whitelist. Allowed: ls");
}

TEST(Policies, AllowsAnyCommandWithoutAList) {
  const Policy policy = parse_policy("name: most\nforbidden: [rm]\nconfine: false\n", "x");
  EXPECT_FALSE(policy.check("anything --at all"));
  EXPECT_EQ(policy.check("a; /x/rm b")->pattern, "\\brm\\b");
  EXPECT_TRUE(policy.check("$x"));
}

TEST(Policies, SaysTheLineAndWhatToDo) {
  EXPECT_EQ(error_of("name: a\ncomands: [ls]\n"),
            "policy mine.yaml:2: unknown key 'comands'; known are name, description, commands, "
            "builtins, forbidden, unresolved, confine and terminals");
  EXPECT_EQ(error_of("name: a\nunresolved: maybe\n"),
            "policy mine.yaml:2: unresolved must be refuse or allow");
  EXPECT_EQ(error_of("name: a\nconfine: yes\n"),
            "policy mine.yaml:2: confine must be true or false");
  EXPECT_EQ(error_of("name: a\ncommands: ls\n"),
            "policy mine.yaml:2: commands must be a list of names, as [a, b]");
  EXPECT_EQ(error_of("name: a\ncommands: [/bin/ls]\n"),
            "policy mine.yaml:2: commands: '/bin/ls' must be a plain name without a path");
  EXPECT_EQ(error_of("name: a\nname: b\n"), "policy mine.yaml:2: 'name' stands there twice");
  EXPECT_NE(error_of("commands: [ls]\n").find("name is missing"), std::string::npos);
  EXPECT_NE(error_of("name: a\n").find("confine: true needs commands"), std::string::npos);
  EXPECT_NE(error_of("name: a\ncommands: [rm]\nforbidden: [rm]\n").find("take it out of one"),
            std::string::npos);
  EXPECT_NE(error_of("- a\n").find("must be a map"), std::string::npos);
  EXPECT_NE(error_of("name: [\n").find("policy mine.yaml:"), std::string::npos);
  EXPECT_NE(error_of("").find("must be a map"), std::string::npos);
}

TEST(Policies, TheLastOneOfANameStays) {
  Policies policies = Policies::builtin();
  policies.add(parse_policy("name: strict\ncommands: [ls]\n", "a"));
  EXPECT_EQ(policies.find("strict")->programs(), std::vector<std::string>{"ls"});
  EXPECT_EQ(policies.names().size(), 3u);
}

}  // namespace
}  // namespace tb::policy
