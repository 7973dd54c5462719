// SPDX-License-Identifier: Apache-2.0
// What a policy file says, as values.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace tb::policy {

using Names = std::set<std::string, std::less<>>;

struct Rules {
  std::string name;
  std::string description;
  std::optional<Names> commands;  // None: any.
  Names builtins;
  Names forbidden;
  bool refuse_unresolved = true;
  bool confine = true;
  bool terminals = false;

  std::vector<std::string> programs;  // `commands`, sorted.
  std::string allowed_text;           // The same as messages list it.

  // Nothing is forbidden and anything is allowed: the text need not even be bash.
  bool allows_everything() const { return !commands && forbidden.empty() && !refuse_unresolved; }
};

}  // namespace tb::policy
