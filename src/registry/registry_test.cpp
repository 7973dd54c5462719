// SPDX-License-Identifier: Apache-2.0
#include "registry/registry.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "registry/tool_command.h"

namespace tb::registry {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

class Directory : public testing::Test {
 protected:
  Directory()
      : dir_(fs::temp_directory_path() / ("threadbox-registry-" + std::to_string(::getpid()))) {
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  ~Directory() override { fs::remove_all(dir_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((dir_ / path).parent_path());
    std::ofstream{dir_ / path} << text;
  }
  Registry load() { return Registry::load(dir_); }
  // Every line of it, without the directory.
  std::vector<std::string> problems() {
    try {
      load();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid);
      std::istringstream text{error.what()};
      std::vector<std::string> lines;
      std::string line;
      std::getline(text, line);
      EXPECT_EQ(line, "the registry is wrong:");
      while (std::getline(text, line)) {
        const std::string start = "  " + dir_.string() + "/";
        EXPECT_TRUE(line.starts_with(start)) << line;
        lines.push_back(line.substr(start.size()));
      }
      return lines;
    }
    return {};
  }
  std::string problem() {
    const std::vector<std::string> all = problems();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? "" : all.front();
  }

  fs::path dir_;
};

using Lines = std::vector<std::string>;

TEST(Builtin, HasTheSamplesThatClientsName) {
  const Registry registry = Registry::load();
  EXPECT_EQ(registry.names("environments"),
            (Lines{"Bash", "Node", "Python3", "e2b-python", "python-basic"}));
  EXPECT_EQ(registry.names("agents"), (Lines{"code_executor", "ml_data_scientist"}));
  EXPECT_EQ(registry.names("tools"), (Lines{"data_analysis", "execute_python", "file_operations",
                                            "ml_trainer", "python_exec"}));
  EXPECT_EQ(registry.names("prompts"), Lines{"default"});
  EXPECT_EQ(registry.names("policies"), (Lines{"open", "strict", "wide"}));
  EXPECT_FALSE(registry.names("things"));
  EXPECT_EQ(registry.find_environment("none"), nullptr);
  const Environment& basic = *registry.find_environment("python-basic");
  EXPECT_EQ(basic.resources.memory, 512_MiB);
  EXPECT_EQ(basic.resources.cpu_quota, 50'000u);
  EXPECT_EQ(basic.image, "sandbox-python:latest");
  EXPECT_EQ(registry.find_environment("e2b-python")->resources.idle, 300s);
  EXPECT_EQ(registry.find_agent("code_executor")->environment, "python-basic");
}

// Whoever limits the policies that clients may choose must not be undone by a sample.
TEST(Builtin, NoSampleChoosesAPolicyOrTheNetwork) {
  const Registry registry = Registry::load();
  for (const Environment* environment : registry.environments()) {
    EXPECT_EQ(environment->policy, "") << environment->name;
    EXPECT_EQ(environment->network, Network::none);
    EXPECT_TRUE(environment->mounts.empty());
    EXPECT_EQ(environment->warm_pool, 0u);
  }
}

TEST(Builtin, DescribesWhatWasWritten) {
  const Registry registry = Registry::load();
  const json::object tool = *registry.describe("tools", "execute_python");
  EXPECT_EQ(tool.at("source").as_string(), "builtin");
  EXPECT_EQ(tool.at("parameters").at("required").at(0).as_string(), "code");
  EXPECT_EQ(registry.describe("policies", "strict")->at("confine").as_bool(), true);
  EXPECT_FALSE(registry.describe("tools", "none"));
  EXPECT_FALSE(registry.describe("things", "open"));
}

TEST_F(Directory, ReadsEveryKeyOfAnEnvironment) {
  write("environments/a.yaml",
        "name: mine\ndescription: d\nprovider: native\nroot: /srv/image\nimage: i\ntemplate: t\n"
        "resources: {memory: 1Gi, disk: 64m, cpu: 2, pids: 99, timeout: 60, command_timeout: 5}\n"
        "mounts: [\"data:/data\", \"/x:/y:ro\"]\nenvironment: {A: 1, B: \"\"}\npolicy: wide\n"
        "network: internet\nwarm_pool: 3\nwarm: [python]\ncapabilities: [x]\n");
  const Registry registry = load();
  const Environment& mine = *registry.find_environment("mine");
  EXPECT_EQ(mine.provider, "native");
  EXPECT_EQ(mine.root, "image:/srv/image");
  EXPECT_EQ(mine.resources.memory, 1_GiB);
  EXPECT_EQ(mine.resources.disk, 64_MiB);
  EXPECT_EQ(mine.resources.cpu_quota, 200'000u);
  EXPECT_EQ(mine.resources.pids, 99u);
  EXPECT_EQ(mine.resources.idle, 60s);
  EXPECT_EQ(mine.resources.command_timeout, 5s);
  ASSERT_EQ(mine.mounts.size(), 2u);
  EXPECT_EQ(mine.mounts[1].target, "/y");
  EXPECT_TRUE(mine.mounts[1].read_only);
  EXPECT_EQ(mine.variables,
            (std::vector<std::pair<std::string, std::string>>{{"A", "1"}, {"B", ""}}));
  EXPECT_EQ(mine.network, Network::internet);
  EXPECT_EQ(mine.warm_pool, 3u);
  EXPECT_EQ(mine.warm, std::vector<std::string>{"python"});
  EXPECT_EQ(mine.source, "environments/a.yaml");
}

TEST_F(Directory, TellsAllProblemsOfAllFilesAtOnce) {
  write("environments/a.yaml",
        "name: a\ncolour: red\nresources:\n  memory: lots\n  cpu: none\npolicy: nosuch\n");
  write("environments/b.yaml", "description: nameless\n");
  write("environments/c.yaml", "name: [\n");
  write("agents/a.yaml", "name: x\nenvironment: a9\ntools: [execute_python, nosuch]\n");
  write("policies/p.yaml", "name: p\nconfine: perhaps\n");
  write("prompts/p.yaml", "name: p p\nsystem_prompt: s\n");
  const Lines expected = {
      "environments/a.yaml:2: unknown key 'colour'; known are name, description, provider, root, "
      "image, template, resources, mounts, environment, policy, network, warm_pool, warm and "
      "capabilities",
      "environments/a.yaml:4: memory must be a size such as 512Mi or 1Gi, and 16Mi at least",
      "environments/a.yaml:5: cpu must be a number from 0.01 to 64",
      "environments/b.yaml:1: name is missing",
      "environments/c.yaml:2: end of sequence flow not found",
      "prompts/p.yaml:1: name must be up to 64 letters, digits, dots, dashes and underscores",
      "policies/p.yaml:2: confine must be true or false",
      "environments/a.yaml:6: 'nosuch' is none of the policies that there are: open, p, strict, "
      "wide",
      "agents/a.yaml:2: 'a9' is none of the environments that there are: Bash, Node, Python3, "
      "e2b-python, python-basic",
      "agents/a.yaml:3: 'nosuch' is none of the tools that there are: data_analysis, "
      "execute_python, file_operations, ml_trainer, python_exec"};
  EXPECT_EQ(problems(), expected);
}

TEST_F(Directory, ANameIsThereOnce) {
  write("tools/a.yaml", "name: t\ncommand: [x]\n");
  write("tools/b.yaml", "description: d\nname: t\ncommand: [x]\n");
  EXPECT_EQ(problem(),
            "tools/b.yaml:2: 't' is defined already, in " + (dir_ / "tools/a.yaml").string());
}

TEST_F(Directory, AFileReplacesTheBuiltinOne) {
  write("policies/strict.yml", "name: strict\ncommands: [ls]\n");
  write("environments/Python3.yaml", "name: Python3\npolicy: strict\n");
  const Registry registry = load();
  EXPECT_EQ(registry.policies().find("strict")->programs(), Lines{"ls"});
  EXPECT_EQ(registry.find_environment("Python3")->policy, "strict");
  EXPECT_EQ(registry.describe("policies", "strict")->at("source").as_string(),
            "policies/strict.yml");
}

TEST_F(Directory, ATypoInADirectorysNameIsNoticed) {
  write("polices/a.yaml", "name: a\n");
  EXPECT_EQ(problem(), "polices: is none of environments, agents, tools, prompts and policies");
}

TEST(Registry, NeedsItsDirectory) { EXPECT_THROW(Registry::load("/nonexistent-registry"), Error); }

TEST_F(Directory, ToolsAreCheckedWhenTheyAreRead) {
  const std::string schema = "parameters: {type: object, properties: {p: {type: string}}}\n";
  write("tools/t.yaml", "name: t\n" + schema);
  EXPECT_EQ(problem(),
            "tools/t.yaml:1: command is missing: the program and its words, as [python3, -]");
  // Text around a value is text that a shell or a program would read.
  write("tools/t.yaml", "name: t\ncommand: [bash, -c, \"echo {{p}}\"]\n" + schema);
  EXPECT_NE(problem().find("tools/t.yaml:2: command: a parameter must be a word of its own"),
            std::string::npos);
  write("tools/t.yaml", "name: t\ncommand: [x, \"--a={{p}}b\"]\n" + schema);
  EXPECT_NE(problem().find("a word of its own"), std::string::npos);
  write("tools/t.yaml", "name: t\ncommand: [x, \"{{q}}\"]\n" + schema);
  EXPECT_EQ(problem(), "tools/t.yaml:2: command: there is no parameter \"q\"");
  write("tools/t.yaml", "name: t\ncommand: [\"{{p}}\"]\n" + schema);
  EXPECT_EQ(problem(), "tools/t.yaml:2: command must begin with the name of a program");
  write("tools/t.yaml", "name: t\nscript: x.sh\n");
  EXPECT_NE(problem().find("script must be a path"), std::string::npos);
  write("tools/t.yaml",
        "name: t\ncommand: [x]\nparameters:\n  type: object\n  properties:\n    p:\n"
        "      type: string\n      pattern: a+\n");
  EXPECT_EQ(problem(),
            "tools/t.yaml:8: parameters/properties/p/pattern: pattern is not supported: list the "
            "values with enum, or let the tool check");
  write("tools/t.yaml", "name: t\ncommand: [x]\nparameters: {type: string}\n");
  EXPECT_EQ(problem(), "tools/t.yaml:3: parameters must be a JSON Schema with type: object");
}

TEST_F(Directory, ValuesBecomeWordsVariablesAndStdin) {
  write("tools/t.yaml",
        "name: t\ncommand: [x, \"--n={{ n }}\", \"{{list}}\", \"{{absent}}\", end]\n"
        "stdin: \"{{text}}\"\nenvironment: {V: \"{{flag}}\", W: fixed, A: \"{{absent}}\"}\n"
        "timeout: 2.5\n"
        "parameters:\n  type: object\n  properties: {n: {type: number}, list: {type: array}, "
        "text: {type: string}, flag: {type: boolean}, absent: {}}\n");
  const Registry registry = load();
  const json::value given = json::parse(
      R"-({"n": 0.5, "list": ["a; rm -rf /", 2, "$(x)"], "text": "line\n", "flag": true})-");
  const sandbox::Command command = make_command(*registry.find_tool("t"), given.as_object());
  EXPECT_EQ(command.argv, (Lines{"x", "--n=0.5", "a; rm -rf /", "2", "$(x)", "end"}));
  EXPECT_EQ(command.input, "line\n");
  EXPECT_EQ(command.env,
            (std::vector<std::pair<std::string, std::string>>{{"V", "true"}, {"W", "fixed"}}));
  EXPECT_EQ(command.timeout, 2500ms);
  EXPECT_TRUE(command.script.empty());
}

TEST(ToolCommand, WithoutStdinTheParametersAreThere) {
  Tool tool;
  tool.name = "t";
  tool.command = {{"x", {}}, {"", "p"}};
  json::object given{{"p", "v"}};
  EXPECT_EQ(make_command(tool, given).input, R"({"p":"v"})");
  given["p"] = std::string(200 << 10, 'x');
  EXPECT_THROW(make_command(tool, given), Error);
  given["p"] = std::string("a\0b", 3);
  EXPECT_THROW(make_command(tool, given), Error);
}

}  // namespace
}  // namespace tb::registry
