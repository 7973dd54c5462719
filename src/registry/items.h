// SPDX-License-Identifier: Apache-2.0
// What the files of a registry say, as values; docs/registry.md has their formats.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "registry/schema.h"
#include "yaml/reader.h"

namespace tb::registry {

struct Item {
  std::string name;
  std::string description;
  std::string source;            // "builtin", or the file below the registry's directory
  boost::json::object document;  // as it was written
};

// Absent: what the server has for all.
struct Resources {
  std::optional<Bytes> memory;
  std::optional<Bytes> disk;
  std::optional<unsigned> cpu_quota;  // of 100000: one core
  std::optional<unsigned> pids;
  std::optional<Milliseconds> idle;             // of a session
  std::optional<Milliseconds> command_timeout;  // of commands that name none
};

struct Mount {
  std::string source;
  std::string target;
  bool read_only = false;
};

enum class Network { none, internet };

struct Environment : Item {
  std::string provider;          // empty: any
  std::string root;              // for native: "host" or "image:<path>"; empty: the server's own
  std::string image;             // for docker
  std::string sandbox_template;  // for e2b
  Resources resources;
  std::vector<Mount> mounts;
  std::vector<std::pair<std::string, std::string>> variables;
  std::string policy;  // empty: the server's default
  Network network = Network::none;
  std::size_t warm_pool = 0;
  std::vector<std::string> warm;  // languages whose interpreters wait in those of the warm pool
};

// A word of a command: text, and then the value of a parameter, if it names one.
struct Word {
  std::string text;
  std::string parameter;
};

struct Tool : Item {
  Schema parameters;
  std::vector<Word> command;
  // Absent: all parameters as JSON.
  std::optional<Word> input;
  std::vector<std::pair<std::string, Word>> variables;
  std::optional<Milliseconds> timeout;
  bool needs_network = false;
};

struct Agent : Item {
  std::string environment;
  std::string provider;
  std::vector<std::string> tools;
  std::string prompt;  // of the registry
  std::string system_prompt;
};

struct Prompt : Item {
  std::string system_prompt;
};

// A name in one file that another file must have.
struct Reference {
  std::string kind;
  std::string name;
  std::string file;
  int line = 0;
};

// Each reads one file that is parsed already; what is wrong is noted by the reader.
Environment read_environment(const yaml::Reader& reader, const yaml::Node& root,
                             std::vector<Reference>& references);
Tool read_tool(const yaml::Reader& reader, const yaml::Node& root);
Agent read_agent(const yaml::Reader& reader, const yaml::Node& root,
                 std::vector<Reference>& references);
Prompt read_prompt(const yaml::Reader& reader, const yaml::Node& root);

// Letters, digits, dots, dashes and underscores; noted when it is another.
std::string read_name(const yaml::Reader& reader, const yaml::Node& node);

}  // namespace tb::registry
