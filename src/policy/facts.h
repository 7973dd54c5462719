// SPDX-License-Identifier: Apache-2.0
// What can be known about the values of variables from the text alone.
//
// Bash evaluates a variable's value wherever it wants a number: with x='a[$(rm v)]', `$((x))`,
// `${y:x}`, `[[ x -eq 1 ]]` and `a[x]=1` all run rm. So a name is fit for such a place only if
// every value that the text gives it is harmless:
//   * literal text without letters, `[`, `*`, `$` and backticks (numbers, signs, blanks);
//   * the result of arithmetic, $#, $?, $$, $!, ${#x};
//   * the output of a command that prints nothing but numbers (wc, seq, date +%s …);
//   * the value of another name that is fit, positional parameters included: those of a function
//     are what its calls in the text pass.
// The order of assignments is not looked at: one bad value anywhere spoils the name. A name that
// the text never assigns is fit: its value could only come from the environment, and that is
// checked by Policy::check_variable. Names that the shell itself fills with text ($_, REPLY …) are
// not.
// A name is tame if its values are moreover one word each that is no option: unquoted `$x` is then
// as good as `"$x"`.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tb::policy {

struct Value {
  bool numeric = false;
  bool tame = false;
  std::vector<std::string> from;  // And only if these names are.
};

bool is_numeric_text(std::string_view text);
bool is_tame_text(std::string_view text);
// An array that the shell itself makes.
bool is_shell_array(std::string_view name);
// Changes what the shell or the loader does, so a command must not set it.
bool is_dangerous_name(std::string_view name);
// Bash evaluates what is assigned to it: RANDOM, SECONDS …
bool is_integer_name(std::string_view name);

class Facts {
 public:
  void assign(const std::string& name, const Value& value);
  void settle();  // After the last assign(): what depends on a bad name is bad.
  bool is_numeric(const std::string& name) const;
  bool is_tame(const std::string& name) const;

 private:
  struct Fact {
    bool numeric = true;
    bool tame = true;
    bool assigned = false;
    std::set<std::string> into;  // Names that depend on this one.
  };
  void spread(bool Fact::* property);
  std::map<std::string, Fact, std::less<>> facts_;
};

}  // namespace tb::policy
