// SPDX-License-Identifier: Apache-2.0
// The command policy: which programs the bash text of a request may name. It is read by a parser of
// our own that fails closed: what it does not understand is refused, never let through.
//
// The parser is the first of two layers and gives the readable answers. The wall is the kernel's
// (Policy::confines): what an allowed program does once it runs is not decided here.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tb::yaml {
class Reader;
struct Node;
}  // namespace tb::yaml

namespace tb::policy {

struct Rules;

// Where in the command: a byte offset, and the same as line and column in bytes, counted from 1.
struct Position {
  std::size_t offset = 0;
  unsigned line = 1;
  unsigned column = 1;
};

struct Refusal {
  std::string message;
  std::optional<std::string> pattern;  // The forbidden pattern that matched, as `\bword\b`.
  Position at;
};

// Immutable; copies share their rules, and any thread may use one.
class Policy {
 public:
  explicit Policy(std::shared_ptr<const Rules> rules);

  const std::string& name() const;
  const std::string& description() const;
  // The kernel's layer is on: only programs() may be executed or read.
  bool confines() const;
  // Names to be found on the PATH of the image, sorted. Some are builtins only and have no file.
  const std::vector<std::string>& programs() const;
  // The same list, for as long as somebody has it.
  std::shared_ptr<const std::vector<std::string>> share_programs() const;
  bool allows_terminals() const;

  // Nothing when `command`, as the text of `bash -c`, is fine. `variables` is what is put into its
  // environment from outside: with MODE=fast there, `$((MODE))` evaluates `fast`.
  using Variables = std::span<const std::pair<std::string, std::string>>;
  std::optional<Refusal> check(std::string_view command, Variables variables = {}) const;

  // Nothing when a variable may be put into the environment of a command from outside its text.
  // A shell runs or loads what BASH_ENV, LD_PRELOAD or an exported function say, and evaluates a
  // value that names an array element; check() can't see any of that.
  std::optional<Refusal> check_variable(std::string_view name, std::string_view value) const;

  const Rules& rules() const { return *rules_; }

 private:
  std::shared_ptr<const Rules> rules_;
};

// Reads one policy of a file that is parsed already; what is wrong with it is noted by the reader,
// and nothing is the answer if it has not even a name.
std::optional<Policy> read_policy(const yaml::Reader& reader, const yaml::Node& root);

// Reads one policy; `where` names the text in messages. Throws Error{Code::invalid} with the line
// and what to do.
Policy parse_policy(std::string_view yaml, const std::string& where);

class Policies {
 public:
  // strict, wide and open, which the binary carries.
  static Policies builtin();
  // In place of another of the same name.
  void add(Policy policy);

  const Policy* find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, Policy, std::less<>> policies_;
};

}  // namespace tb::policy
