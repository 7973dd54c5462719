// SPDX-License-Identifier: Apache-2.0
// Policies as YAML: the format is in docs/policy.md.
#include "base/error.h"
#include "policy/policy.h"
#include "policy/rules.h"
#include "yaml/reader.h"

extern "C" const char tb_policy_strict_begin[], tb_policy_strict_end[];
extern "C" const char tb_policy_wide_begin[], tb_policy_wide_end[];
extern "C" const char tb_policy_open_begin[], tb_policy_open_end[];

namespace tb::policy {
namespace {

class Loader {
 public:
  explicit Loader(const yaml::Reader& reader) : reader_(reader) {}

  Rules load(const yaml::Node& root) {
    Rules rules;
    reader_.fields(
        root,
        {{"name", [&](const auto& node) { rules.name = reader_.text("name", node); }},
         {"description",
          [&](const auto& node) { rules.description = reader_.text("description", node); }},
         {"commands", [&](const auto& node) { rules.commands = names("commands", node); }},
         {"builtins", [&](const auto& node) { rules.builtins = names("builtins", node); }},
         {"forbidden", [&](const auto& node) { rules.forbidden = names("forbidden", node); }},
         {"unresolved",
          [&](const auto& node) { rules.refuse_unresolved = refuses_unresolved(node); }},
         {"confine", [&](const auto& node) { rules.confine = reader_.truth("confine", node); }},
         {"terminals",
          [&](const auto& node) { rules.terminals = reader_.truth("terminals", node); }}});
    check(root, rules);
    finish(rules);
    return rules;
  }

 private:
  Names names(const std::string& key, const yaml::Node& node) const {
    Names names;
    if (node.kind != yaml::Node::Kind::list) {
      reader_.fail(node.line, key + " must be a list of names, as [a, b]");
      return names;
    }
    for (const yaml::Node& item : node.items) {
      const std::string name = reader_.text(key, item);
      if (name.empty() || name.find_first_of("/ \t\n'\"$`\\") != std::string::npos) {
        reader_.fail(item.line, key + ": '" + name + "' must be a plain name without a path");
      }
      names.insert(name);
    }
    return names;
  }

  bool refuses_unresolved(const yaml::Node& node) const {
    const std::string what = reader_.text("unresolved", node);
    if (what != "refuse" && what != "allow") {
      reader_.fail(node.line, "unresolved must be refuse or allow");
    }
    return what != "allow";
  }

  void check(const yaml::Node& root, const Rules& rules) const {
    if (rules.name.empty()) reader_.fail(root.line, "name is missing");
    if (rules.confine && !rules.commands) {
      reader_.fail(root.line, "confine: true needs commands, the programs that may run");
    }
    for (const std::string& name : rules.forbidden) {
      if (rules.commands && rules.commands->contains(name)) {
        reader_.fail(root.line,
                     "'" + name + "' is in commands and in forbidden; take it out of one");
      }
    }
  }

  static void finish(Rules& rules) {
    if (!rules.commands) return;
    rules.programs.assign(rules.commands->begin(), rules.commands->end());
    for (const std::string& name : rules.programs) {
      rules.allowed_text += (rules.allowed_text.empty() ? "" : ", ") + name;
    }
  }

  const yaml::Reader& reader_;
};

}  // namespace

std::optional<Policy> read_policy(const yaml::Reader& reader, const yaml::Node& root) {
  Rules rules = Loader{reader}.load(root);
  if (rules.name.empty()) return std::nullopt;
  return Policy{std::make_shared<const Rules>(std::move(rules))};
}

Policy parse_policy(std::string_view text, const std::string& where) {
  yaml::Problems problems;
  const yaml::Reader reader{where, problems};
  std::optional<Policy> policy;
  if (const auto root = reader.parse(text)) policy = read_policy(reader, *root);
  if (!problems.empty()) throw Error{Code::invalid, "policy " + problems.lines().front()};
  return *policy;
}

Policies Policies::builtin() {
  Policies policies;
  using Bytes = std::pair<const char*, const char*>;
  for (const auto& [begin, end] : {Bytes{tb_policy_strict_begin, tb_policy_strict_end},
                                   Bytes{tb_policy_wide_begin, tb_policy_wide_end},
                                   Bytes{tb_policy_open_begin, tb_policy_open_end}}) {
    Policy policy = parse_policy({begin, static_cast<std::size_t>(end - begin)}, "in the binary");
    policies.add(std::move(policy));
  }
  return policies;
}

void Policies::add(Policy policy) {
  const std::string name = policy.name();
  policies_.insert_or_assign(name, std::move(policy));
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
