// SPDX-License-Identifier: Apache-2.0
// Environments, agents, tools, prompts and policies by their names: those that the binary carries,
// and over them the files of an operator.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/policy.h"
#include "registry/items.h"

namespace tb::registry {

// A value: a reload replaces it whole. Pointers that it gave are then invalid, so keep none across
// a wait.
class Registry {
 public:
  // The five kinds, as the directories and the API name them.
  static const std::vector<std::string>& kinds();

  // What the binary carries, and every *.yaml and *.yml of `dir`'s directories, which replace those
  // of the same name; without `dir` only the former. Throws Error{invalid} with every problem of
  // every file, a line each.
  static Registry load(const std::string& dir = {});

  const Environment* find_environment(std::string_view name) const;
  const Agent* find_agent(std::string_view name) const;
  const Tool* find_tool(std::string_view name) const;
  const Prompt* find_prompt(std::string_view name) const;
  const policy::Policies& policies() const { return policies_; }
  std::vector<const Environment*> environments() const;
  // What native sandboxes may be made of beside the settings' environment.
  std::vector<std::string> roots() const;
  // Directories of the host that environments mount.
  std::vector<std::string> directories() const;

  // Of a kind; nothing when there is no such kind.
  std::optional<std::vector<std::string>> names(std::string_view kind) const;
  // One as people wrote it, with its source. Nothing when there is no such one.
  std::optional<boost::json::object> describe(std::string_view kind, std::string_view name) const;

 private:
  friend class Loader;
  template <class T>
  using ByName = std::map<std::string, T, std::less<>>;

  ByName<Environment> environments_;
  ByName<Agent> agents_;
  ByName<Tool> tools_;
  ByName<Prompt> prompts_;
  policy::Policies policies_ = policy::Policies::builtin();
  ByName<std::string> policy_sources_;
};

// "a, b, c", or "none".
std::string join_names(const std::vector<std::string>& names);

}  // namespace tb::registry
