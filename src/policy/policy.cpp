// SPDX-License-Identifier: Apache-2.0
#include "policy/policy.h"

#include "policy/facts.h"
#include "policy/rules.h"
#include "policy/walker.h"

namespace tb::policy {

Policy::Policy(std::shared_ptr<const Rules> rules) : rules_(std::move(rules)) {}

const std::string& Policy::name() const { return rules_->name; }
const std::string& Policy::description() const { return rules_->description; }
bool Policy::confines() const { return rules_->confine; }
const std::vector<std::string>& Policy::programs() const { return rules_->programs; }
std::shared_ptr<const std::vector<std::string>> Policy::share_programs() const {
  return {rules_, &rules_->programs};
}
bool Policy::allows_terminals() const { return rules_->terminals; }

std::optional<Refusal> Policy::check(std::string_view command, Variables variables) const {
  if (command.find_first_not_of(" \t\n\r\v\f") == command.npos) {
    return Refusal{"Empty command", {}, {}};
  }
  if (rules_->allows_everything() && command.find('\0') == command.npos) return {};
  return examine(*rules_, command, variables).refusal;
}

std::optional<Refusal> Policy::check_variable(std::string_view name, std::string_view value) const {
  if (!rules_->refuse_unresolved) return {};
  const bool evaluated = value.find('[') != value.npos &&
                         (value.find("$(") != value.npos || value.find('`') != value.npos);
  const bool integer = is_integer_name(name) && !is_numeric_text(value);
  if (!is_dangerous_name(name) && !evaluated && !integer) return {};
  const std::string what = is_dangerous_name(name)
                               ? " changes how commands are found or run, and must not be set ("
                               : " has a value that the shell would evaluate (";
  return Refusal{
      "Variable " + std::string(name) + what + rules_->name + " policy); leave it out", {}, {}};
}

}  // namespace tb::policy
