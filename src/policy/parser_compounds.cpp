// SPDX-License-Identifier: Apache-2.0
// Parser: compound commands, functions and [[ ]].
#include <algorithm>

#include "policy/parser.h"

namespace tb::policy {
namespace {

bool among(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool is_reserved(std::string_view word) {
  return among(word, {"{", "if", "while", "until", "for", "select", "case", "function", "coproc",
                      "[[", "then", "else", "elif", "fi", "do", "done", "esac", "}", "in"});
}

bool is_unary(const Word& word) {
  static constexpr std::string_view kLetters = "abcdefghknoprstuvwxzGLNOSR";
  return word.is_plain() && word.value.size() == 2 && word.value[0] == '-' &&
         kLetters.find(word.value[1]) != std::string_view::npos;
}

bool is_number_comparison(std::string_view text) {
  return among(text, {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"});
}

bool is_binary(std::string_view text) {
  return is_number_comparison(text) || among(text, {"=", "==", "!=", "=~", "-nt", "-ot", "-ef"});
}

}  // namespace

// False when no compound command begins here; then nothing was read.
bool Parser::read_compound(Command& command) {
  using Kind = Command::Kind;
  const Deeper deeper{*this};
  if (peek() == '(') {
    next();
    if (peek() == '(') {
      next();
      command.kind = Kind::arith;
      command.ariths.push_back(read_arith("))"));
    } else {
      command.kind = Kind::subshell;
      command.bodies.push_back(read_script(&Parser::at_parenthesis));
      if (!take(')')) fail("')' is missing");
    }
    return true;
  }
  if (!is_reserved(peek_plain())) return false;
  if (take_reserved("{")) {
    command.kind = Kind::group;
    command.bodies.push_back(read_block());
    expect_reserved("}");
  } else if (take_reserved("if")) {
    read_if(command);
  } else if (take_reserved("while") || take_reserved("until")) {
    read_loop(command);
  } else if (take_reserved("for")) {
    read_for(command, false);
  } else if (take_reserved("select")) {
    read_for(command, true);
  } else if (take_reserved("case")) {
    read_case(command);
  } else if (take_reserved("function")) {
    read_function(command, true);
  } else if (take_reserved("coproc")) {
    read_coprocess(command);
  } else if (take_reserved("[[")) {
    command.kind = Kind::test;
    read_test(command, 0);
    test_blanks();
    if (!take_reserved("]]")) fail("']]' is missing");
  } else if (at_closing_word() || at_reserved("in")) {
    fail("unexpected '" + std::string(peek_plain()) + "'");
  } else {
    return false;
  }
  return true;
}

// Commands up to a reserved word that closes something; one at least.
Script Parser::read_block() {
  Script script = read_script(&Parser::at_closing_word);
  if (script.pipelines.empty()) fail("a command is missing");
  return script;
}

void Parser::read_if(Command& command) {
  command.kind = Command::Kind::conditional;
  for (;;) {
    command.bodies.push_back(read_block());
    expect_reserved("then");
    command.bodies.push_back(read_block());
    if (take_reserved("elif")) continue;
    if (take_reserved("else")) command.bodies.push_back(read_block());
    expect_reserved("fi");
    return;
  }
}

void Parser::read_loop(Command& command) {
  command.kind = Command::Kind::loop;
  command.bodies.push_back(read_block());
  expect_reserved("do");
  command.bodies.push_back(read_block());
  expect_reserved("done");
}

void Parser::read_loop_body(Command& command) {
  skip_blanks();
  take(';');
  skip_newlines();
  const bool brace = take_reserved("{");
  if (!brace) expect_reserved("do");
  command.bodies.push_back(read_block());
  expect_reserved(brace ? "}" : "done");
}

void Parser::read_for(Command& command, bool select) {
  skip_blanks();
  if (!select && peek() == '(' && ahead(1) == '(') {
    take('(');
    take('(');
    command.kind = Command::Kind::arith_loop;
    command.ariths.push_back(read_arith("))"));
    const std::string& text = command.ariths.back().text;
    if (std::count(text.begin(), text.end(), ';') != 2) fail("'for ((' needs two ';'");
    read_loop_body(command);
    return;
  }
  command.kind = Command::Kind::iterate;
  const Word name = read_word();
  if (!name.is_plain() || !is_name(name.value)) fail("a loop's variable must be a plain name");
  command.name = name.value;
  skip_newlines();
  if (take_reserved("in")) {
    for (skip_blanks(); peek() != ';' && peek() != '\n'; skip_blanks()) {
      if (peek() == kEnd) fail("'do' is missing");
      command.words.push_back(read_word());
    }
  } else {
    command.words.emplace_back();  // The positional parameters.
    command.words.back().at = command.at;
    command.words.back().opaque = true;
  }
  read_loop_body(command);
}

void Parser::read_case(Command& command) {
  command.kind = Command::Kind::match;
  skip_blanks();
  command.words.push_back(read_word());
  expect_reserved("in");
  for (skip_newlines(); !take_reserved("esac"); skip_newlines()) {
    take('(');
    for (;;) {
      skip_blanks();
      command.words.push_back(read_word());
      skip_blanks();
      if (!take('|')) break;
    }
    if (!take(')')) fail("')' is missing after a pattern");
    command.bodies.push_back(read_script(&Parser::at_clause_end));
    if (take_text(";;")) {
      take('&');
    } else if (!take_text(";&") && !at_reserved("esac")) {
      fail("';;' is missing");
    }
  }
}

// `keyword`: after `function`; else at the parentheses after the name.
void Parser::read_function(Command& command, bool keyword) {
  command.kind = Command::Kind::function;
  if (keyword) {
    skip_blanks();
    const Word name = read_word();
    if (!name.is_plain()) fail("a function's name must be plain text");
    command.name = name.value;
    skip_blanks();
  }
  if (take('(')) {
    skip_blanks();
    if (!take(')')) fail("')' is missing after a function's name");
  } else if (!keyword) {
    fail("'()' is missing");
  }
  if (command.name.find_first_of("/=$[]{}*?~!") != std::string::npos) {
    fail("a function's name may have letters, digits and '_', '-', '.' only");
  }
  skip_newlines();
  Command body;
  body.at = offset();
  if (!read_compound(body)) fail("a function's body must stand in '{ }' or '( )'");
  if (body.kind == Command::Kind::function || body.kind == Command::Kind::coprocess) {
    fail("a function's body must stand in '{ }' or '( )'");
  }
  read_redirects(body);
  Script script;
  script.pipelines.emplace_back();
  script.pipelines.back().commands.push_back(std::move(body));
  command.bodies.push_back(std::move(script));
}

// coproc [NAME] compound, or coproc simple.
void Parser::read_coprocess(Command& command) {
  command.kind = Command::Kind::coprocess;
  command.name = "COPROC";
  Script script;
  script.pipelines.emplace_back();
  skip_blanks();
  Command body;
  body.at = offset();
  if (!read_compound(body)) {
    const std::size_t saved = at_;
    const Word name = read_word();
    skip_blanks();
    if (name.is_plain() && is_name(name.value) && read_compound(body)) {
      command.name = name.value;
    } else {
      at_ = saved;
      body = read_simple();
    }
  }
  if (body.kind == Command::Kind::function) fail("a function as a coprocess");
  script.pipelines.back().commands.push_back(std::move(body));
  command.bodies.push_back(std::move(script));
}

void Parser::test_blanks() {
  for (int c = peek(); c == ' ' || c == '\t' || c == '\n'; c = peek()) {
    if (c == '\n' && !pending_.empty()) fail("a here-document before the end of [[ ]]");
    next();
  }
  if (peek() == '#') fail("a comment inside of [[ ]]");
}

bool Parser::at_test_end() {
  test_blanks();
  return peek() == kEnd || peek() == ')' || peek() == '&' || peek() == '|' || at_reserved("]]");
}

// As above, but inside of a term, where a line must not end.
bool Parser::at_term_end() {
  for (int c = peek(); c == ' ' || c == '\t'; c = peek()) next();
  return peek() == '\n' || at_test_end();
}

// Terms with && and || between them, up to `]]` or `)`.
void Parser::read_test(Command& command, int level) {
  for (;;) {
    read_test_term(command, level);
    test_blanks();
    if (!take_text("&&") && !take_text("||")) return;
  }
}

void Parser::read_test_term(Command& command, int level) {
  if (level > kMaxDepth) fail("nested too deeply; write it in several commands");
  test_blanks();
  while (take_reserved("!")) test_blanks();
  if (take('(')) {
    read_test(command, level + 1);
    test_blanks();
    if (!take(')')) fail("')' is missing in [[ ]]");
    return;
  }
  if (at_test_end()) fail("a word is missing in [[ ]]");
  Word left = read_word();
  if (is_unary(left) && !at_term_end()) {
    Word operand = read_word();
    const bool names = left.value == "-v" || left.value == "-R";
    (names ? command.variables : command.words).push_back(std::move(operand));
    return;
  }
  if (at_term_end()) {
    if (is_unary(left) && peek() == '\n') fail("a word is missing in [[ ]]");
    command.words.push_back(std::move(left));
    return;
  }
  read_test_operand(command, left);
}

void Parser::read_test_operand(Command& command, const Word& left) {
  const int c = peek();
  if ((c == '<' || c == '>') && ahead(1) != '(') {
    next();
    if (at_term_end()) fail("a word is missing in [[ ]]");
    command.words.push_back(left);
    command.words.push_back(read_word());
    return;
  }
  const Word op = read_word();
  if (!op.is_plain() && op.value != "=~") fail("an operator is missing in [[ ]]");
  if (!is_binary(op.value)) fail("an operator is missing in [[ ]]");
  if (at_term_end() && peek() != ')') fail("a word is missing in [[ ]]");
  const bool numbers = is_number_comparison(op.value);
  const Mode mode = op.value == "=~"                                          ? Mode::regex
                    : op.value == "=" || op.value == "==" || op.value == "!=" ? Mode::pattern
                                                                              : Mode::normal;
  std::vector<Word>& into = numbers ? command.numbers : command.words;
  into.push_back(left);
  into.push_back(read_word(mode));
}

}  // namespace tb::policy
