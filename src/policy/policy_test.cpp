// SPDX-License-Identifier: Apache-2.0
#include "policy/policy.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/utf8.h"
#include "policy/walker.h"

namespace tb::policy {
namespace {

const Policy& builtin(std::string_view name) {
  static const Policies policies = Policies::builtin();
  return *policies.find(name);
}
const Policy& strict() { return builtin("strict"); }

std::string message(const Policy& policy, std::string_view command) {
  const auto refusal = policy.check(command);
  return refusal ? refusal->message : "";
}
std::string strict_message(std::string_view command) { return message(strict(), command); }

// Tests run somewhere inside of the source tree.
std::string read_source(const std::string& path) {
  for (auto root = std::filesystem::current_path(); root != root.root_path();
       root = root.parent_path()) {
    std::ifstream in{root / path, std::ios::binary};
    if (in) return {std::istreambuf_iterator<char>{in}, {}};
  }
  ADD_FAILURE() << path << " is not there";
  return {};
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return parts;
}

TEST(Policy, AnswersTheValidatorCasesRight) {
  int dangerous = 0, harmless = 0;
  for (const std::string& line :
       split(read_source("tests/security/probes/validator_cases.jsonl"), "\n")) {
    const auto item = boost::json::parse(line).as_object();
    const std::string cls{item.at("cls").as_string()}, command{item.at("cmd").as_string()};
    const auto refusal = strict().check(command);
    if (cls == "A") {
      ++dangerous;
      EXPECT_TRUE(refusal) << command;
    } else if (cls == "C") {
      ++harmless;
      EXPECT_FALSE(refusal) << command << ": " << refusal->message;
    }
  }
  EXPECT_EQ(dangerous, 75);
  EXPECT_EQ(harmless, 40);
}

TEST(Policy, LetsOrdinaryScriptsThrough) {
  const auto commands = split(read_source("tests/policy/fine.txt"), "\n%%\n");
  EXPECT_GT(commands.size(), 70u);
  for (const std::string& command : commands) {
    EXPECT_EQ(strict_message(command), "") << command;
    EXPECT_EQ(message(builtin("wide"), command), "") << command;
    EXPECT_EQ(message(builtin("open"), command), "") << command;
  }
}

TEST(Policy, RefusesWhatHidesACommand) {
  const auto commands = split(read_source("tests/policy/refused.txt"), "\n%%\n");
  EXPECT_GT(commands.size(), 180u);
  for (const std::string& command : commands) EXPECT_NE(strict_message(command), "") << command;
}

TEST(Policy, SpeaksAsTheSeedsDo) {
  EXPECT_EQ(strict_message(""), "Empty command");
  EXPECT_EQ(strict_message(" \t\n "), "Empty command");
  EXPECT_EQ(strict_message("# nothing"), "Empty command");
  const auto forbidden = strict().check("ls && /bin/rm x");
  ASSERT_TRUE(forbidden);
  EXPECT_EQ(forbidden->message, "Command contains forbidden pattern: \\brm\\b");
  EXPECT_EQ(forbidden->pattern, "\\brm\\b");
  const std::string unknown = strict_message("perl -e 1");
  EXPECT_TRUE(unknown.starts_with("Command 'perl' not in whitelist. Allowed: [, awk, base64, "))
      << unknown;
  EXPECT_EQ(strict_message("echo 'a"), "Invalid command syntax: a single quote is not closed");
}

TEST(Policy, SaysWhereTheWordStands) {
  const auto refusal = strict().check("ls\necho $(wc\n  rm x)");
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->at.offset, 15u);
  EXPECT_EQ(refusal->at.line, 3u);
  EXPECT_EQ(refusal->at.column, 3u);
  EXPECT_EQ(strict().check("ls; eval 'a; rm x'")->at.offset, 9u);
}

TEST(Policy, NamesTheFirstOfSeveralReasons) {
  EXPECT_EQ(strict().check("nothing; rm x")->at.offset, 0u);
  EXPECT_EQ(strict().check("rm x; nothing")->message,
            "Command contains forbidden pattern: \\brm\\b");
}

TEST(Policy, SaysWhyItCantKnowAndWhatToDo) {
  EXPECT_EQ(strict_message("cmd=ls; $cmd"),
            "Command word can't be known before it runs: $cmd (strict policy); write the program's "
            "name directly");
}

TEST(Policy, TakesOnlyBlanksOfBashForBlanks) {
  for (const char* blank : {"\xc2\xa0", "\xe2\x80\x8b", "\v", "\f", "\r"}) {
    EXPECT_NE(strict_message(std::string("ls") + blank + "-l"), "") << blank;
    EXPECT_EQ(strict_message(std::string("echo a") + blank + "rm"), "") << blank;
  }
  EXPECT_NE(strict_message("\xd0\xb3m victim"), "");  // A Cyrillic letter.
  EXPECT_NE(strict_message("\xe2\x80\xaels"), "");    // Right to left.
  EXPECT_NE(strict_message("ls\r\n"), "");
}

TEST(Policy, RefusesANul) {
  const std::string text{"ls\0 -l", 6};
  for (const char* name : {"strict", "wide", "open"}) {
    EXPECT_EQ(message(builtin(name), text), "Invalid command syntax: a NUL byte") << name;
  }
}

TEST(Policy, EndsQuicklyOnNestingWithoutEnd) {
  for (const char* piece :
       {"(",           "'",    "\"",     "$(",    "\\",  "<<a ",       "`",    "${",    "$((",
        "{ ",          "if ",  "\"$(",   "[[ (",  "x=(", "case x in ", "`\\`", "f(){ ", "coproc ",
        "function f ", "env ", "xargs ", "eval ", "$[",  "a[",         "]",    "{a,",   "[ "}) {
    std::string text;
    while (text.size() < 100 * 1024) text += piece;
    text += "'";  // So that an even number of quotes is wrong too.
    const std::clock_t begin = std::clock();
    EXPECT_TRUE(strict().check(text)) << piece;
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 1.0) << piece;  // 0.05 in release; sanitizers need more.
  }
}

TEST(Policy, ListsEveryCommandWord) {
  const Report report = examine(strict().rules(), "ls | wc; echo $(date) | xargs env A=b cat");
  EXPECT_EQ(report.words,
            (std::vector<std::string>{"ls", "wc", "date", "echo", "xargs", "env", "cat"}));
}

TEST(Policy, ChecksVariablesThatComeFromOutside) {
  EXPECT_TRUE(strict().check_variable("BASH_ENV", "x"));
  EXPECT_TRUE(strict().check_variable("LD_PRELOAD", "x"));
  EXPECT_TRUE(strict().check_variable("BASH_FUNC_ls%%", "() { rm v; }"));
  EXPECT_TRUE(strict().check_variable("x", "a[$(rm v)]"));
  EXPECT_FALSE(strict().check_variable("NAME", "value [1]"));
  EXPECT_FALSE(builtin("open").check_variable("PATH", "."));
}

TEST(Policy, ValuesFromOutsideCountAsThoseOfTheText) {
  const std::vector<std::pair<std::string, std::string>> named{{"MODE", "fast"}};
  const std::vector<std::pair<std::string, std::string>> number{{"MODE", "5"}};
  EXPECT_TRUE(strict().check("fast='a[$(rm v)]'; echo $((MODE))", named));
  EXPECT_TRUE(strict().check("fast='a[$(rm v)]'; ((MODE++))", named));
  EXPECT_FALSE(strict().check("echo $((MODE + 1))", number));
  EXPECT_FALSE(strict().check("echo \"$MODE\"", named));
}

TEST(Policy, MessagesAreUtf8WhereverTheTextIsCut) {
  EXPECT_EQ(strict_message("((1))\xc3\xa9"), "Invalid command syntax: unexpected '\xef\xbf\xbd'");
  const std::string shown = strict_message(std::string(59, 'x') + "\xc3\xa9$x");
  EXPECT_NE(shown, "");
  EXPECT_TRUE(is_utf8(shown)) << shown;
}

TEST(Policy, WideLetsThroughWhatItCantKnowButNotTheForbidden) {
  EXPECT_EQ(message(builtin("wide"), "$x; ./a.out; bash script.sh; rm -r x; make"), "");
  EXPECT_EQ(message(builtin("wide"), "ls; curl http://x"),
            "Command contains forbidden pattern: \\bcurl\\b");
  EXPECT_NE(message(builtin("wide"), "bash -c 'sudo ls'"), "");
  EXPECT_NE(message(builtin("wide"), "/sbin/mount x"), "");
  EXPECT_NE(message(builtin("wide"), "echo $(nosuchtool)"), "");
}

}  // namespace
}  // namespace tb::policy
