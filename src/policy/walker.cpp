// SPDX-License-Identifier: Apache-2.0
#include "policy/walker.h"

#include <algorithm>

#include "base/utf8.h"

namespace tb::policy {
namespace {

// Their graph is walked for each of them.
constexpr std::size_t kMaxFunctions = 200;

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

Report examine(const Rules& rules, std::string_view command, Policy::Variables variables) {
  Report report;
  Budget budget;
  try {
    if (const std::size_t nul = command.find('\0'); nul != command.npos) {
      throw SyntaxError{"a NUL byte", nul};
    }
    Parser parser{command, budget};
    const Script script = parser.parse();
    Walker walker{rules, budget};
    for (const auto& [name, value] : variables) walker.assume(name, value);
    walker.walk(script, Context{true, {}, true});
    walker.settle();
    report.refusal = walker.refusal();
    report.words = walker.words();
    if (!report.refusal && script.pipelines.empty())
      report.refusal = Refusal{"Empty command", {}, {}};
  } catch (const SyntaxError& error) {
    report.refusal = Refusal{"Invalid command syntax: " + error.message, {}, {error.at}};
  }
  if (report.refusal) {
    report.refusal->at = position_of(command, report.refusal->at.offset);
    // It may hold a part of the text, cut off in the middle of a letter.
    report.refusal->message = to_utf8(std::move(report.refusal->message));
  }
  return report;
}

void Walker::refuse(std::size_t at, std::string message, std::optional<std::string> pattern) {
  if (refusal_ && refusal_->at.offset <= at) return;
  refusal_ = Refusal{std::move(message), std::move(pattern), {at}};
}

void Walker::unresolved(std::size_t at, const std::string& why) {
  if (rules_.refuse_unresolved) refuse(at, why);
}

void Walker::assume(const std::string& name, const std::string& value) {
  facts_.assign(name, {is_numeric_text(value), is_tame_text(value), {}});
}

void Walker::walk(const Script& script, const Context& context) {
  for (const Pipeline& pipeline : script.pipelines) {
    if (context.top && pipeline.fresh) {
      ++line_;
      steps_ = 0;
    }
    walk(pipeline, context);
  }
}

void Walker::walk(const Pipeline& pipeline, const Context& context) {
  Context inside = context;
  inside.top = false;
  inside.straight = context.straight && !pipeline.conditional && !pipeline.background &&
                    pipeline.commands.size() == 1;
  for (const Command& command : pipeline.commands) walk(command, inside);
}

void Walker::walk(const Command& command, const Context& context) {
  using Kind = Command::Kind;
  if (command.kind == Kind::function) return walk_function(command, context);
  for (const Redirect& redirect : command.redirects) walk(redirect, context);
  if (command.kind == Kind::simple) {
    walk_simple(command, context);
    ++steps_;
    return;
  }
  if (command.kind != Kind::group) ++steps_;
  if (command.kind == Kind::iterate) walk_iteration(command, context);
  if (command.kind == Kind::coprocess) {
    set_variable(command.at, command.name, {true, true, {}});
    arrays_.insert(command.name);
    not_associative_.insert(command.name);  // It becomes one with numbers.
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
  // A redirection that fails leaves out the whole group.
  inside.straight = context.straight && command.kind == Kind::group && command.redirects.empty();
  for (const Script& body : command.bodies) walk(body, inside);
}

void Walker::walk_simple(const Command& command, const Context& context) {
  const bool reads =
      !command.words.empty() && command.words[0].is_static() && command.words[0].value == "read";
  for (const Assignment& assignment : command.assignments) {
    // Before `read` it holds for that alone: the usual way to read lines.
    if (reads && assignment.name == "IFS" && !assignment.subscript) {
      separators_.push_back(assignment.at);
      walk(assignment.value, context);
    } else {
      walk(assignment, context);
    }
  }
  for (const Word& word : command.words) walk(word, context);
  Context inside = context;
  inside.straight = context.straight && command.redirects.empty() && command.assignments.empty();
  if (!command.words.empty()) run(command.words, inside, Lookup::shell, &command.declared);
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
  if (functions_.size() >= kMaxFunctions) {
    return refuse(command.at, "Too many functions in one command");
  }
  Function& function = functions_[command.name];
  function.at = std::max(function.at, command.at);
  const bool straight = context.straight && context.function.empty();
  function.certain = function.certain || (straight && steps_ == 0);
  if (straight) function.line = line_;
  if (command.name == "command_not_found_handle") {
    unresolved(command.at, "Function " + command.name + " would be called by the shell itself (" +
                               rules_.name + " policy); give it another name");
  }
  // Its output is no longer that of the program.
  facts_.assign("()" + command.name, {});
  Context inside{false, command.name};
  const std::size_t steps = steps_;
  for (const Script& body : command.bodies) walk(body, inside);
  steps_ = steps;  // Nothing of it has run.
}

void Walker::walk(const Redirect& redirect, const Context& context) {
  if (!redirect.variable.empty()) set_variable(redirect.at, redirect.variable, {true, true, {}});
  walk(redirect.target, context);
  if (redirect.body) walk(*redirect.body, context);
}

void Walker::walk(const Assignment& assignment, const Context& context, bool associative) {
  if (assignment.subscript || assignment.compound) add_array(assignment.name);
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
    // What fails in it does not end what comes after.
    Context inside = context;
    inside.straight = false;
    walk(script, inside);
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

// The last offset at which a function stands that a call of `function` may need, and the line that
// the call must stand on, or 0; `at` is npos when one of them may not exist at all.
Walker::Done Walker::latest_needed(const std::string& function) {
  std::set<std::string> seen{function};
  std::vector<std::string> open{function};
  Done latest;
  while (!open.empty()) {
    const auto found = functions_.find(open.back());
    open.pop_back();
    if (found == functions_.end()) return {std::string::npos, 0};
    const Function& needed = found->second;
    const bool same_line = latest.line == 0 || latest.line == needed.line;
    if (!needed.certain && (needed.line == 0 || !same_line)) return {std::string::npos, 0};
    if (!needed.certain) latest.line = needed.line;
    latest.at = std::max(latest.at, needed.at);
    for (const std::string& callee : needed.calls) {
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
  std::map<std::string, Done> latest;
  for (const Call& call : calls_) {
    if (!call.caller.empty() || !functions_.contains(call.name)) continue;
    const auto [entry, first] = latest.try_emplace(call.name);
    if (first) entry->second = latest_needed(call.name);
    const Done& needed = entry->second;
    if (needed.at >= call.at || (needed.line != 0 && needed.line != call.line)) {
      unresolved(call.at, "Function '" + call.name +
                              "', or one that it calls, may not be defined when it is called (" +
                              rules_.name +
                              " policy); define functions first, outside of conditions");
    }
  }
  for (const std::size_t at : separators_) {
    if (!functions_.contains("read")) break;
    unresolved(at, "Variable IFS changes how words are split, and 'read' is a function here (" +
                       rules_.name + " policy); give it another name");
  }
  for (const Call& call : unset_) {
    if (functions_.contains(call.name)) {
      unresolved(call.at, "Function '" + call.name + "' must not be unset (" + rules_.name +
                              " policy); leave out the unset");
    }
  }
}

// A subscript there is a key, not arithmetic.
bool Walker::is_associative(const Need& need) const {
  const auto found = associative_.find(need.array);
  if (found == associative_.end() || not_associative_.contains(need.array)) return false;
  const Done& declared = found->second;
  return declared.at < need.at && (declared.line == 0 || declared.line == need.line);
}

void Walker::settle_needs() {
  if (!rules_.refuse_unresolved) return;
  for (const Call& value : array_values_) {
    if (!arrays_.contains(value.name) && !is_shell_array(value.name)) continue;
    unresolved(value.at, "An array's value in quotes is evaluated once more (" + rules_.name +
                             " policy); write name=(...) without quotes");
  }
  for (const std::string& name : integers_) this->need(0, name, Fit::numeric);
  for (const Need& need : needs_) {
    const bool fits =
        need.fit == Fit::numeric ? facts_.is_numeric(need.name) : facts_.is_tame(need.name);
    if (fits || is_associative(need)) continue;
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
