// SPDX-License-Identifier: Apache-2.0
// Bash text as a tree: as much of it as deciding about commands needs.
// Offsets are bytes of the text that the user sent; inside of text that exists only after quotes
// were removed (backticks, eval, here-documents) all have the offset of its beginning.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace tb::policy {

struct Script;
struct Arith;
struct Param;

struct Expansion {
  enum class Kind { command, process, arith, param };
  Kind kind = Kind::command;
  bool quoted = false;  // The result is not split into words.
  std::size_t at = 0;
  std::shared_ptr<Script> script;  // command, process
  std::shared_ptr<Arith> arith;
  std::shared_ptr<Param> param;
};

// An arithmetic expression. In `text` each expansion is one kExpanded byte.
struct Arith {
  static constexpr char kExpanded = '\x01';
  std::size_t at = 0;
  std::string text;
  bool quotes = false;  // Holds quotes or backslashes, as only subscripts do.
  std::vector<Expansion> expansions;
};

struct Word {
  std::size_t at = 0;
  std::string value;      // The literal text, quotes removed.
  std::size_t fixed = 0;  // How many bytes of `value` stand before the first expansion.
  bool quoted = false;    // Has quotes or backslashes.
  bool glob = false;
  bool bracket = false;  // An unquoted `[`, the beginning of a pattern.
  bool brace = false;
  bool tilde = false;
  bool opaque = false;  // What bash makes of it is not known here.
  bool splits = false;  // May become no word or several.
  std::vector<Expansion> expansions;

  bool is_static() const { return expansions.empty() && !glob && !brace && !tilde && !opaque; }
  // Unquoted text as it stands: only such a word can be reserved or an assignment.
  bool is_plain() const { return !quoted && is_static(); }
};

// ${name…}
struct Param {
  std::string name;
  bool length = false;    // ${#x}
  bool indirect = false;  // ${!x}
  bool all = false;       // [@] or [*], or ${!prefix*}
  std::string op;         // "", ":-", "#", "/", "@P", ":" …
  std::shared_ptr<Arith> subscript;
  std::vector<Arith> offsets;  // ${x:offset:length}
  std::vector<Word> words;     // The operator's words.
};

struct Assignment {
  std::size_t at = 0;
  std::string name;
  bool append = false;
  bool compound = false;  // name=( elements )
  std::shared_ptr<Arith> subscript;
  Word value;
  std::vector<Assignment> elements;  // Of a compound one; `name` is empty in them.
};

struct Redirect {
  std::size_t at = 0;
  std::string op;        // "<", ">>" …
  std::string variable;  // {variable}>file
  Word target;
  std::shared_ptr<Word> body;  // Of a here-document.
};

struct Command {
  enum class Kind {
    simple,
    subshell,
    group,
    conditional,
    loop,
    iterate,
    arith_loop,
    match,
    function,
    test,
    arith,
    coprocess
  };
  Kind kind = Kind::simple;
  std::size_t at = 0;
  std::string name;  // Of a function, a loop's variable, a coprocess.
  std::vector<Assignment> assignments;
  std::vector<Word> words;  // Of a simple command, a for list, case word and patterns, [[ ]].
  std::vector<Assignment> declared;  // declare x=(…): compound values among the words.
  std::vector<Redirect> redirects;
  std::vector<Script> bodies;
  std::vector<Arith> ariths;    // (( )), for (( )); operands of [[ -eq ]].
  std::vector<Word> numbers;    // [[ ]]: words that bash evaluates as arithmetic.
  std::vector<Word> variables;  // [[ -v ]]: words that name a variable.
};

struct Pipeline {
  std::vector<Command> commands;
  bool conditional = false;  // After && or ||.
  bool background = false;
  bool fresh = false;  // The first of a line.
};

struct Script {
  std::vector<Pipeline> pipelines;
};

}  // namespace tb::policy
