// SPDX-License-Identifier: Apache-2.0
// Walks the tree of a command and holds every command word against the rules.
//
// Nothing stops the walk: the refusal that stands first in the text is the answer. Two things are
// decided only at its end, when the whole text is known: calls of functions (a call may stand
// before the definition) and whether a variable's value is harmless (facts.h).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/ast.h"
#include "policy/facts.h"
#include "policy/parser.h"
#include "policy/policy.h"
#include "policy/rules.h"

namespace tb::policy {

struct Context {
  // Runs for certain, in the shell of the text itself: a function defined here is there afterwards.
  bool straight = true;
  std::string function;  // Whose body this is; empty at the top.
  bool top = false;      // The text itself, whose lines bash reads and runs one by one.
};

using Words = std::span<const Word>;

class Walker {
 public:
  Walker(const Rules& rules, Budget& budget, int depth = 0)
      : rules_(rules), budget_(budget), depth_(depth) {}

  void assume(const std::string& name, const std::string& value);  // In its environment.
  void walk(const Script& script, const Context& context);
  void settle();  // After the last walk().

  const std::optional<Refusal>& refusal() const { return refusal_; }
  const std::vector<std::string>& words() const { return words_; }

 private:
  enum class Lookup { shell, builtins, programs };  // Where a command's name is searched.
  enum class Fit { numeric, tame };
  struct Call {
    std::size_t at;
    std::string name;
    std::string caller;
    std::size_t line = 0;
  };
  // What was done for certain, unless something before it on the same line failed: then bash
  // leaves out the rest of the line. `line` 0: nothing stands before it.
  struct Done {
    std::size_t at = 0;
    std::size_t line = 0;
  };
  struct Function {
    std::size_t at = 0;
    bool certain = false;
    std::size_t line = 0;  // As in Done.
    std::vector<std::string> calls;
  };
  struct Need {
    std::size_t at;
    std::string name;
    Fit fit;
    std::string array;  // Not needed if this is an associative array.
    std::size_t line;
  };

  // walker.cpp
  void refuse(std::size_t at, std::string message, std::optional<std::string> pattern = {});
  // Refuses in policies that want everything resolved. `why` is a sentence without its full stop.
  void unresolved(std::size_t at, const std::string& why);
  void walk(const Pipeline& pipeline, const Context& context);
  void walk(const Command& command, const Context& context);
  void walk_simple(const Command& command, const Context& context);
  void walk_function(const Command& command, const Context& context);
  void walk_iteration(const Command& command, const Context& context);
  void walk(const Redirect& redirect, const Context& context);
  void walk(const Assignment& assignment, const Context& context, bool associative = false);
  void walk_text(std::string_view text, std::size_t at, const Context& context);
  void settle_calls();
  void settle_needs();
  Done latest_needed(const std::string& function);
  bool is_associative(const Need& need) const;

  // commands.cpp
  void run(Words words, const Context& context, Lookup lookup = Lookup::shell,
           const std::vector<Assignment>* declared = nullptr);
  bool refuse_forbidden(std::size_t at, const std::string& name);
  void run_path(const Word& word, Words words, const Context& context);
  void check_name(const Word& word, const std::string& name, const Context& context, Lookup lookup);
  bool dispatch(const std::string& name, Words words, const Context& context,
                const std::vector<Assignment>* declared);
  void not_allowed(std::size_t at, const std::string& name);
  void set_variable(std::size_t at, const std::string& name, const Value& value);
  void set_variable(const Word& word, const Value& value);  // The name as an argument.

  // expressions.cpp
  void walk(const Word& word, const Context& context);
  void walk(const Expansion& expansion, const Context& context);
  void walk(const Param& param, std::size_t at, const Context& context);
  void walk(const Arith& arith, const Context& context, const std::string& array = {});
  void scan_arith(std::string_view text, std::size_t at, const std::string& array);
  void evaluate(const Word& word, const Context& context);  // As arithmetic.
  void need(std::size_t at, const std::string& name, Fit fit, const std::string& array = {});
  void need_single(const Word& word, const Context& context);
  void need_variable_name(const Word& word);
  Value value_of(const Word& word, const Context& context) const;
  Value value_of(const Expansion& expansion, const Context& context) const;
  Value value_of(const Param& param, const Context& context) const;
  Value output_of(const Script& script, const Context& context) const;

  // builtins.cpp, builtins_variables.cpp
  void run_eval(Words words, const Context& context);
  void run_exec(Words words, const Context& context);
  void run_command(Words words, const Context& context);
  void run_trap(Words words, const Context& context);
  void run_jobs(Words words);
  void run_set(Words words, const Context& context);
  void run_shopt(Words words);
  void run_test(Words words, const Context& context);
  void run_declare(Words words, const Context& context, const std::vector<Assignment>* declared);
  void declare_word(const Word& word, bool array, bool integer, const Context& context);
  void run_unset(Words words);
  void declare_associative(const std::string& name, std::size_t at, bool certain);
  void add_array(const std::string& name);
  void run_read(Words words, const Context& context);
  void run_printf(Words words, const Context& context);
  void run_mapfile(Words words, const Context& context);
  void run_getopts(Words words);
  void run_wait(Words words, const Context& context);
  void run_let(Words words, const Context& context);

  // launchers.cpp
  struct Launcher;
  bool run_launcher(const std::string& name, Words words, const Context& context);
  std::size_t skip_options(const Launcher& launcher, Words words, bool& known);
  void run_environment(Words words, std::size_t from, const Context& context);
  void run_xargs(Words words, std::size_t from, const Context& context);
  void run_shell(Words words, const Context& context);
  void run_find(Words words, const Context& context);
  void find_open_word(Words words, std::size_t i, bool known, const Context& context);
  void run_found(Words words, const Context& context);

  // programs.cpp
  void run_awk(Words words);
  void run_sed(Words words);
  void run_sort(Words words);

  const Rules& rules_;
  Budget& budget_;
  int depth_;
  int launches_ = 0;  // env env env …
  std::optional<Refusal> refusal_;
  std::vector<std::string> words_;
  Facts facts_;
  std::map<std::string, Function, std::less<>> functions_;
  std::vector<Call> calls_;
  std::vector<Need> needs_;
  std::set<std::string> integers_;           // declare -i
  std::map<std::string, Done> associative_;  // declare -A, for certain
  std::set<std::string> not_associative_;    // The same name, otherwise declared or unset.
  std::set<std::string> arrays_;
  std::vector<Call> array_values_;  // declare x="$y": evaluated if x is an array.
  std::vector<Call> unset_;
  std::vector<std::size_t> separators_;  // Where IFS is set for read.
  std::size_t line_ = 0;                 // Of the text itself, from 1.
  std::size_t steps_ = 0;                // Commands of this line so far that may have failed.
};

struct Report {
  std::optional<Refusal> refusal;
  std::vector<std::string> words;  // Every command word that was resolved, in order.
};

Report examine(const Rules& rules, std::string_view command, Policy::Variables variables = {});

}  // namespace tb::policy
