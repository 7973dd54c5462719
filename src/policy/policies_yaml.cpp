// SPDX-License-Identifier: Apache-2.0
// Policies as YAML: the format is in docs/policy.md.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "base/error.h"
#include "policy/policy.h"
#include "policy/rules.h"

extern "C" const char tb_policy_strict_begin[], tb_policy_strict_end[];
extern "C" const char tb_policy_wide_begin[], tb_policy_wide_end[];
extern "C" const char tb_policy_open_begin[], tb_policy_open_end[];

namespace tb::policy {
namespace {

class Loader {
 public:
  explicit Loader(const std::string& where) : where_(where) {}

  Rules load(std::string_view yaml) {
    try {
      return read(YAML::Load(std::string{yaml}));
    } catch (const YAML::Exception& error) {
      fail(error.mark, error.msg);
    }
  }

 private:
  [[noreturn]] void fail(const YAML::Mark& mark, const std::string& what) const {
    std::string at = where_;
    if (!mark.is_null()) at += ":" + std::to_string(mark.line + 1);
    throw Error{Code::invalid, "policy " + at + ": " + what};
  }

  std::string text(const std::string& key, const YAML::Node& node) const {
    if (!node.IsScalar()) fail(node.Mark(), key + " must be text");
    return node.Scalar();
  }

  bool truth(const std::string& key, const YAML::Node& node) const {
    const std::string value = text(key, node);
    if (value != "true" && value != "false") fail(node.Mark(), key + " must be true or false");
    return value == "true";
  }

  Names names(const std::string& key, const YAML::Node& node) const {
    if (!node.IsSequence()) fail(node.Mark(), key + " must be a list of names, as [a, b]");
    Names names;
    for (const YAML::Node& item : node) {
      const std::string name = text(key, item);
      if (name.empty() || name.find_first_of("/ \t\n'\"$`\\") != std::string::npos) {
        fail(item.Mark(), key + ": '" + name + "' must be a plain name without a path");
      }
      names.insert(name);
    }
    return names;
  }

  void set(Rules& rules, const std::string& key, const YAML::Node& mark, const YAML::Node& value) {
    if (key == "name") {
      rules.name = text(key, value);
    } else if (key == "description") {
      rules.description = text(key, value);
    } else if (key == "commands") {
      rules.commands = names(key, value);
    } else if (key == "builtins") {
      rules.builtins = names(key, value);
    } else if (key == "forbidden") {
      rules.forbidden = names(key, value);
    } else if (key == "unresolved") {
      const std::string what = text(key, value);
      if (what != "refuse" && what != "allow") {
        fail(value.Mark(), "unresolved must be refuse or allow");
      }
      rules.refuse_unresolved = what == "refuse";
    } else if (key == "confine") {
      rules.confine = truth(key, value);
    } else if (key == "terminals") {
      rules.terminals = truth(key, value);
    } else {
      fail(mark.Mark(), "unknown key '" + key +
                            "'; known are name, description, commands, builtins, forbidden, "
                            "unresolved, confine and terminals");
    }
  }

  Rules read(const YAML::Node& root) {
    if (!root.IsMap()) fail(root.Mark(), "must be a map of keys; the first is name");
    Rules rules;
    std::set<std::string> seen;
    for (const auto& entry : root) {
      const std::string key = text("a key", entry.first);
      if (!seen.insert(key).second) fail(entry.first.Mark(), "'" + key + "' stands there twice");
      set(rules, key, entry.first, entry.second);
    }
    if (rules.name.empty()) fail(root.Mark(), "name is missing");
    if (rules.confine && !rules.commands) {
      fail(root.Mark(), "confine: true needs commands, the programs that may run");
    }
    for (const std::string& name : rules.forbidden) {
      if (rules.commands && rules.commands->contains(name)) {
        fail(root.Mark(), "'" + name + "' is in commands and in forbidden; take it out of one");
      }
    }
    finish(rules);
    return rules;
  }

  static void finish(Rules& rules) {
    if (!rules.commands) return;
    rules.programs.assign(rules.commands->begin(), rules.commands->end());
    for (const std::string& name : rules.programs) {
      rules.allowed_text += (rules.allowed_text.empty() ? "" : ", ") + name;
    }
  }

  const std::string& where_;
};

}  // namespace

Policy parse_policy(std::string_view yaml, const std::string& where) {
  return Policy{std::make_shared<const Rules>(Loader{where}.load(yaml))};
}

Policies Policies::builtin() {
  Policies policies;
  using Bytes = std::pair<const char*, const char*>;
  for (const auto& [begin, end] : {Bytes{tb_policy_strict_begin, tb_policy_strict_end},
                                   Bytes{tb_policy_wide_begin, tb_policy_wide_end},
                                   Bytes{tb_policy_open_begin, tb_policy_open_end}}) {
    Policy policy = parse_policy({begin, static_cast<std::size_t>(end - begin)}, "in the binary");
    policies.policies_.insert_or_assign(policy.name(), policy);
  }
  return policies;
}

void Policies::load_directory(const std::string& dir) {
  std::error_code failure;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator{dir, failure}) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  if (failure) {
    throw Error{Code::invalid, "read policies of " + dir + ": " + failure.message()};
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    std::ifstream in{file, std::ios::binary};
    const std::string yaml{std::istreambuf_iterator<char>{in}, {}};
    if (!in) throw Error{Code::invalid, "read policy " + file.string()};
    Policy policy = parse_policy(yaml, file.string());
    policies_.insert_or_assign(policy.name(), policy);
  }
}

const Policy* Policies::find(std::string_view name) const {
  const auto found = policies_.find(name);
  return found == policies_.end() ? nullptr : &found->second;
}

std::vector<std::string> Policies::names() const {
  std::vector<std::string> names;
  for (const auto& [name, policy] : policies_) names.push_back(name);
  return names;
}

}  // namespace tb::policy
