// SPDX-License-Identifier: Apache-2.0
#include "policy/walker.h"

#include <algorithm>

namespace tb::policy {
namespace {

// Their graph is walked for each of them.
constexpr std::size_t kMaxFunctions = 500;

Position position_of(std::string_view text, std::size_t offset) {
  Position at;
  at.offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, at.offset);
  at.line += static_cast<unsigned>(std::count(before.begin(), before.end(), '\n'));
  const std::size_t line = before.rfind('\n');
  at.column += static_cast<unsigned>(line == before.npos ? at.offset : at.offset - line - 1);
  return at;
}

}  // namespace

Report examine(const Rules& rules, std::string_view command) {
  Report report;
  Budget budget;
  try {
    if (const std::size_t nul = command.find('\0'); nul != command.npos) {
      throw SyntaxError{"a NUL byte", nul};
    }
    Parser parser{command, budget};
    const Script script = parser.parse();
    Walker walker{rules, budget};
    walker.walk(script, Context{});
    walker.settle();
    report.refusal = walker.refusal();
    report.words = walker.words();
    if (!report.refusal && script.pipelines.empty())
      report.refusal = Refusal{"Empty command", {}, {}};
  } catch (const SyntaxError& error) {
    report.refusal = Refusal{"Invalid command syntax: " + error.message, {}, {error.at}};
  }
  if (report.refusal) report.refusal->at = position_of(command, report.refusal->at.offset);
  return report;
}

void Walker::refuse(std::size_t at, std::string message, std::optional<std::string> pattern) {
  if (refusal_ && refusal_->at.offset <= at) return;
  refusal_ = Refusal{std::move(message), std::move(pattern), {at}};
}

void Walker::unresolved(std::size_t at, const std::string& why) {
  if (rules_.refuse_unresolved) refuse(at, why);
}

void Walker::walk(const Script& script, const Context& context) {
  for (const Pipeline& pipeline : script.pipelines) walk(pipeline, context);
}

void Walker::walk(const Pipeline& pipeline, const Context& context) {
  Context inside = context;
  inside.straight = context.straight && !pipeline.conditional && !pipeline.background &&
                    pipeline.commands.size() == 1;
  for (const Command& command : pipeline.commands) walk(command, inside);
}

void Walker::walk(const Command& command, const Context& context) {
  using Kind = Command::Kind;
  for (const Redirect& redirect : command.redirects) walk(redirect, context);
  if (command.kind == Kind::simple) return walk_simple(command, context);
  if (command.kind == Kind::function) return walk_function(command, context);
  if (command.kind == Kind::iterate) walk_iteration(command, context);
  if (command.kind == Kind::coprocess) {
    set_variable(command.at, command.name, {true, true, {}});
    arrays_.insert(command.name);
    set_variable(command.at, command.name + "_PID", {true, true, {}});
  }
  for (const Word& word : command.words) walk(word, context);
  for (const Word& word : command.variables) {
    walk(word, context);
    need_variable_name(word);
  }
  for (const Word& word : command.numbers) evaluate(word, context);
  for (const Arith& arith : command.ariths) walk(arith, context);
  Context inside = context;
  inside.straight = context.straight && command.kind == Kind::group;
  for (const Script& body : command.bodies) walk(body, inside);
}

void Walker::walk_simple(const Command& command, const Context& context) {
  const bool reads =
      !command.words.empty() && command.words[0].is_static() && command.words[0].value == "read";
  for (const Assignment& assignment : command.assignments) {
    // Before `read` it holds for that alone: the usual way to read lines.
    if (reads && assignment.name == "IFS" && !assignment.subscript) {
      walk(assignment.value, context);
    } else {
      walk(assignment, context);
    }
  }
  for (const Word& word : command.words) walk(word, context);
  if (!command.words.empty()) {
    run(command.words, context, Lookup::shell, &command.declared);
  }
}

void Walker::walk_iteration(const Command& command, const Context& context) {
  for (const Word& word : command.words) {
    Value value = value_of(word, context);
    if (word.opaque && word.value.empty()) value = {true, true, {context.function + "@"}};
    set_variable(command.at, command.name, value);
  }
}

void Walker::walk_function(const Command& command, const Context& context) {
  refuse_forbidden(command.at, command.name);
  if (functions_.size() >= kMaxFunctions) refuse(command.at, "Too many functions in one command");
  Function& function = functions_[command.name];
  function.at = std::max(function.at, command.at);
  function.certain = function.certain || (context.straight && context.function.empty());
  // Its output is no longer that of the program.
  facts_.assign("()" + command.name, {});
  Context inside{false, command.name};
  for (const Script& body : command.bodies) walk(body, inside);
}

void Walker::walk(const Redirect& redirect, const Context& context) {
  if (!redirect.variable.empty()) set_variable(redirect.at, redirect.variable, {true, true, {}});
  walk(redirect.target, context);
  if (redirect.body) walk(*redirect.body, context);
}

void Walker::walk(const Assignment& assignment, const Context& context, bool associative) {
  if (assignment.subscript || assignment.compound) arrays_.insert(assignment.name);
  const std::string array = associative ? std::string{} : assignment.name;
  if (assignment.subscript) walk(*assignment.subscript, context, array);
  if (!assignment.compound) {
    walk(assignment.value, context);
    set_variable(assignment.at, assignment.name, value_of(assignment.value, context));
    return;
  }
  set_variable(assignment.at, assignment.name, {true, true, {}});
  for (const Assignment& element : assignment.elements) {
    if (element.subscript) walk(*element.subscript, context, assignment.name);
    walk(element.value, context);
    set_variable(element.at, assignment.name, value_of(element.value, context));
  }
}

// Text that becomes a command once it is a string: eval, trap, bash -c.
void Walker::walk_text(std::string_view text, std::size_t at, const Context& context) {
  if (depth_ + 10 > kMaxDepth || text.size() > budget_.inner_bytes) {
    return refuse(at, "Invalid command syntax: nested too deeply; write it in several commands");
  }
  budget_.inner_bytes -= text.size();
  depth_ += 10;
  try {
    Parser parser{text, budget_, depth_, at};
    const Script script = parser.parse();
    walk(script, context);
  } catch (const SyntaxError& error) {
    refuse(at, "Invalid command syntax: " + error.message);
  }
  depth_ -= 10;
}

void Walker::settle() {
  facts_.settle();
  settle_calls();
  settle_needs();
}

// The last offset at which a function stands that a call of `function` may need; npos when one of
// them may not exist at all.
std::size_t Walker::latest_needed(const std::string& function) {
  std::set<std::string> seen{function};
  std::vector<std::string> open{function};
  std::size_t latest = 0;
  while (!open.empty()) {
    const auto found = functions_.find(open.back());
    open.pop_back();
    if (found == functions_.end() || !found->second.certain) return std::string::npos;
    latest = std::max(latest, found->second.at);
    for (const std::string& callee : found->second.calls) {
      if (seen.insert(callee).second) open.push_back(callee);
    }
  }
  return latest;
}

void Walker::settle_calls() {
  for (const Call& call : calls_) {
    const auto found = functions_.find(call.name);
    if (found == functions_.end()) {
      not_allowed(call.at, call.name);
    } else if (const auto caller = functions_.find(call.caller); caller != functions_.end()) {
      caller->second.calls.push_back(call.name);
    }
  }
  if (!rules_.refuse_unresolved) return;
  std::map<std::string, std::size_t> latest;
  for (const Call& call : calls_) {
    if (!call.caller.empty() || !functions_.contains(call.name)) continue;
    const auto [entry, first] = latest.try_emplace(call.name, 0);
    if (first) entry->second = latest_needed(call.name);
    if (entry->second >= call.at) {
      unresolved(call.at, "Function '" + call.name +
                              "', or one that it calls, may not be defined when it is called (" +
                              rules_.name +
                              " policy); define functions first, outside of conditions");
    }
  }
  for (const Call& call : unset_) {
    if (functions_.contains(call.name)) {
      unresolved(call.at, "Function '" + call.name + "' must not be unset (" + rules_.name +
                              " policy); leave out the unset");
    }
  }
}

void Walker::settle_needs() {
  if (!rules_.refuse_unresolved) return;
  for (const Call& value : array_values_) {
    if (!arrays_.contains(value.name)) continue;
    unresolved(value.at, "An array's value in quotes is evaluated once more (" + rules_.name +
                             " policy); write name=(…) without quotes");
  }
  for (const std::string& name : integers_) needs_.push_back({0, name, Fit::numeric, {}});
  for (const Need& need : needs_) {
    const bool fits =
        need.fit == Fit::numeric ? facts_.is_numeric(need.name) : facts_.is_tame(need.name);
    const bool keyed = associative_.contains(need.array) && !not_associative_.contains(need.array);
    if (fits || (keyed && !need.array.empty())) continue;
    if (need.fit == Fit::tame) {
      unresolved(need.at, "Value of '" + need.name + "' may become several words or an option (" +
                              rules_.name + " policy); put it in double quotes, after '--'");
    } else {
      const bool argument = need.name.ends_with('@');
      unresolved(need.at, (argument ? "An argument" : "Value of '" + need.name + "'") +
                              " is evaluated as arithmetic, which can run commands, and can't be "
                              "known before it runs (" +
                              rules_.name +
                              " policy); use a copy with its digits only: digits=${x//[!0-9]/}");
    }
  }
}

}  // namespace tb::policy
