// SPDX-License-Identifier: Apache-2.0
#include "registry/registry.h"

#include "policy/rules.h"

namespace tb::registry {
namespace json = boost::json;
namespace {

template <class Map>
auto find_in(const Map& map, std::string_view name) -> const typename Map::mapped_type* {
  const auto found = map.find(name);
  return found == map.end() ? nullptr : &found->second;
}

template <class Map>
std::vector<std::string> keys_of(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, item] : map) names.push_back(name);
  return names;
}

template <class Map>
std::optional<json::object> document_of(const Map& map, std::string_view name) {
  const auto* item = find_in(map, name);
  if (!item) return std::nullopt;
  json::object document = item->document;
  document["source"] = item->source;
  return document;
}

json::array words(const policy::Names& names) {
  json::array list;
  for (const std::string& name : names) list.emplace_back(name);
  return list;
}

json::object describe_policy(const policy::Policy& policy) {
  const policy::Rules& rules = policy.rules();
  return {{"name", rules.name},
          {"description", rules.description},
          {"commands", rules.commands ? json::value(words(*rules.commands)) : json::value(nullptr)},
          {"builtins", words(rules.builtins)},
          {"forbidden", words(rules.forbidden)},
          {"unresolved", rules.refuse_unresolved ? "refuse" : "allow"},
          {"confine", rules.confine},
          {"terminals", rules.terminals}};
}

}  // namespace

const std::vector<std::string>& Registry::kinds() {
  static const std::vector<std::string> kinds = {"environments", "agents", "tools", "prompts",
                                                 "policies"};
  return kinds;
}

const Environment* Registry::find_environment(std::string_view name) const {
  return find_in(environments_, name);
}
const Agent* Registry::find_agent(std::string_view name) const { return find_in(agents_, name); }
const Tool* Registry::find_tool(std::string_view name) const { return find_in(tools_, name); }
const Prompt* Registry::find_prompt(std::string_view name) const { return find_in(prompts_, name); }

std::vector<const Environment*> Registry::environments() const {
  std::vector<const Environment*> all;
  for (const auto& [name, environment] : environments_) all.push_back(&environment);
  return all;
}

std::vector<std::string> Registry::roots() const {
  std::vector<std::string> roots;
  for (const auto& [name, environment] : environments_) {
    if (!environment.root.empty()) roots.push_back(environment.root);
  }
  return roots;
}

std::vector<std::string> Registry::directories() const {
  std::vector<std::string> directories;
  for (const auto& [name, environment] : environments_) {
    for (const Mount& mount : environment.mounts) {
      if (mount.source.starts_with('/')) directories.push_back(mount.source);
    }
  }
  return directories;
}

std::optional<std::vector<std::string>> Registry::names(std::string_view kind) const {
  if (kind == "environments") return keys_of(environments_);
  if (kind == "agents") return keys_of(agents_);
  if (kind == "tools") return keys_of(tools_);
  if (kind == "prompts") return keys_of(prompts_);
  if (kind == "policies") return policies_.names();
  return std::nullopt;
}

std::optional<json::object> Registry::describe(std::string_view kind, std::string_view name) const {
  if (kind == "environments") return document_of(environments_, name);
  if (kind == "agents") return document_of(agents_, name);
  if (kind == "tools") return document_of(tools_, name);
  if (kind == "prompts") return document_of(prompts_, name);
  const policy::Policy* policy = kind == "policies" ? policies_.find(name) : nullptr;
  if (!policy) return std::nullopt;
  json::object document = describe_policy(*policy);
  const std::string* source = find_in(policy_sources_, name);
  document["source"] = source ? *source : "builtin";
  return document;
}

std::string join_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

}  // namespace tb::registry
