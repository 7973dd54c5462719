// SPDX-License-Identifier: Apache-2.0
// Parser: lists, pipelines, simple commands and redirections.
#include "policy/parser.h"

namespace tb::policy {
namespace {

// Longest first.
constexpr std::string_view kRedirects[] = {"&>>", "<<<", "<<-", "&>", "<<", "<&",
                                           "<>",  ">>",  ">&",  ">|", "<",  ">"};

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool opens_redirect(int c, int second) {
  return ((c == '<' || c == '>') && second != '(') || (c == '&' && second == '>');
}

}  // namespace

Script Parser::parse() {
  Script script = read_script(&Parser::at_text_end);
  if (!pending_.empty()) {
    throw SyntaxError{"here-document without its end, a line '" + pending_[0].delimiter + "'",
                      pending_[0].at};
  }
  return script;
}

bool Parser::at_text_end() { return peek() == kEnd; }
bool Parser::at_parenthesis() { return peek() == ')'; }

bool Parser::at_closing_word() {
  static constexpr std::string_view kClosing[] = {"then", "else", "elif", "fi",
                                                  "do",   "done", "esac", "}"};
  const std::string_view word = peek_plain();
  for (const std::string_view closing : kClosing) {
    if (word == closing) return true;
  }
  return false;
}

// ;; ;& ;;& or esac
bool Parser::at_clause_end() {
  return (peek() == ';' && (ahead(1) == ';' || ahead(1) == '&')) || at_reserved("esac");
}

// Commands up to what `at_end` sees; that is left to be read.
Script Parser::read_script(bool (Parser::*at_end)()) {
  const Deeper deeper{*this};
  Script script;
  skip_newlines();
  for (bool fresh = true; !(this->*at_end)(); fresh = skip_newlines()) {
    if (peek() == kEnd) fail("the end comes too early");
    const std::size_t first = script.pipelines.size();
    read_and_or(script);
    script.pipelines[first].fresh = fresh;
    skip_blanks();
    if ((this->*at_end)()) break;
    const int c = peek();
    if (c == '&' && ahead(1) != '&') {
      next();
      script.pipelines.back().background = true;
    } else if (c == ';' && ahead(1) != ';' && ahead(1) != '&') {
      next();
    } else if (c != '\n' && c != kEnd) {
      fail(std::string("unexpected '") + static_cast<char>(c) + "'");
    }
  }
  return script;
}

void Parser::read_and_or(Script& script) {
  bool conditional = false;
  for (;;) {
    Pipeline pipeline = read_pipeline();
    pipeline.conditional = conditional;
    script.pipelines.push_back(std::move(pipeline));
    skip_blanks();
    if (!take_text("&&") && !take_text("||")) return;
    conditional = true;
    skip_newlines();
  }
}

// `!` and `time`, in any order and number, as bash takes them.
void Parser::skip_prefixes() {
  for (;;) {
    skip_blanks();
    if (take_reserved("!")) continue;
    if (!take_reserved("time")) return;
    skip_blanks();
    if (peek_plain() == "-p") take_text("-p");
    skip_blanks();
    if (peek_plain() == "--") take_text("--");
  }
}

Pipeline Parser::read_pipeline() {
  Pipeline pipeline;
  const std::size_t begin = at_;
  skip_prefixes();
  const int c = peek();
  // `time` and `!` may stand alone.
  if (at_ != begin && (c == kEnd || c == '\n' || c == ';')) return pipeline;
  pipeline.commands.push_back(read_command());
  for (;;) {
    skip_blanks();
    if (peek() != '|' || ahead(1) == '|') return pipeline;
    next();
    take('&');
    skip_newlines();
    if (at_reserved("!") || at_reserved("time")) {
      fail("'" + std::string(peek_plain()) + "' stands only before a whole pipeline");
    }
    pipeline.commands.push_back(read_command());
  }
}

Command Parser::read_command() {
  const Deeper deeper{*this};
  count_node();
  Command command;
  skip_blanks();
  command.at = offset();
  if (read_compound(command)) {
    read_redirects(command);
    return command;
  }
  return read_simple();
}

Command Parser::read_simple() {
  Command command;
  skip_blanks();
  command.at = offset();
  while (read_simple_piece(command)) {
  }
  if (command.kind == Command::Kind::function) return command;
  if (command.words.empty() && command.assignments.empty() && command.redirects.empty()) {
    const int c = peek();
    if (c == kEnd) fail("a command is missing at the end");
    fail(std::string("unexpected '") + (c == '\n' ? "end of line" : std::string(1, c)) + "'");
  }
  return command;
}

bool Parser::read_simple_piece(Command& command) {
  skip_blanks();
  const int c = peek();
  if (c == '(') {
    const bool names = command.words.size() == 1 && command.assignments.empty() &&
                       command.redirects.empty() && command.words[0].is_plain();
    if (!names) fail("unexpected '('");
    command.name = command.words[0].value;
    command.words.clear();
    read_function(command, false);
    return false;
  }
  if (opens_redirect(c, ahead(1))) return read_redirect(command, nullptr);
  if (c == kEnd || c == '\n' || c == '|' || c == '&' || c == ';' || c == ')') return false;
  if (command.words.empty()) {
    Assignment assignment;
    if (read_assignment(assignment)) {
      command.assignments.push_back(std::move(assignment));
      return true;
    }
  }
  read_argument(command);
  return true;
}

void Parser::read_argument(Command& command) {
  const bool declares = !command.words.empty() && command.words[0].is_plain() &&
                        is_assignment_builtin(command.words[0].value);
  if (declares) {
    // An assignment here is split and matched like one, and its name is known.
    const std::size_t saved = at_;
    Assignment assignment;
    bool plain = is_name_start(peek());
    for (int c = peek(); plain && is_name_byte(c); c = peek()) next();
    plain = plain && (peek() == '=' || (peek() == '+' && ahead(1) == '='));
    at_ = saved;
    if (plain && read_assignment(assignment)) {
      command.declared.push_back(std::move(assignment));
      return;
    }
  }
  Word word = read_word();
  const int c = peek();
  if ((c == '<' || c == '>') && word.expansions.empty() && !word.quoted) {
    const std::string& text = word.value;
    if (is_number(text) || (text.size() > 2 && text.front() == '{' && text.back() == '}')) {
      read_redirect(command, &word);
      return;
    }
  }
  if (c == '(' && !command.words.empty()) fail("unexpected '('");
  command.words.push_back(std::move(word));
}

bool Parser::read_redirect(Command& command, const Word* fd) {
  Redirect redirect;
  redirect.at = offset();
  if (fd != nullptr && fd->value.front() == '{') {
    redirect.variable = fd->value.substr(1, fd->value.size() - 2);
    if (!is_name(redirect.variable)) fail("a variable's name is missing in '{ }'");
  }
  std::string_view op;
  for (const std::string_view candidate : kRedirects) {
    if (take_text(candidate)) {
      op = candidate;
      redirect.op = candidate;
      break;
    }
  }
  skip_blanks();
  const std::size_t begin = at_;
  redirect.target = read_word();
  // There bash takes digits for a descriptor once more, and stops.
  if ((peek() == '<' || peek() == '>') && is_number(text_.substr(begin, at_ - begin))) {
    fail("a file's name is missing after '" + redirect.op + "'");
  }
  if (op == "<<" || op == "<<-") {
    const Word& end = redirect.target;
    const bool odd = text_.substr(begin, at_ - begin).find_first_of("$`") != text_.npos;
    if (odd || !end.expansions.empty() || end.value.find('\n') != std::string::npos) {
      fail("the end word of a here-document must be plain text");
    }
    redirect.body = std::make_shared<Word>();
    redirect.body->at = redirect.at;
    pending_.push_back({end.value, end.quoted, op == "<<-", redirect.body, redirect.at});
  }
  command.redirects.push_back(std::move(redirect));
  return true;
}

// After a compound command.
void Parser::read_redirects(Command& command) {
  for (;;) {
    skip_blanks();
    const std::size_t saved = at_;
    if (opens_redirect(peek(), ahead(1))) {
      read_redirect(command, nullptr);
      continue;
    }
    Word fd;
    for (int c = peek(); c >= '0' && c <= '9'; c = peek()) {
      fd.value += static_cast<char>(c);
      next();
    }
    if (!fd.value.empty() && opens_redirect(peek(), ahead(1)) && peek() != '&') {
      read_redirect(command, &fd);
      continue;
    }
    at_ = saved;
    return;
  }
}

// The plain word that stands here, cut off where it is too long to be reserved; does not move.
std::string_view Parser::peek_plain() {
  static constexpr std::string_view kEnds = " \t\n|&;()<>";
  const std::size_t saved = at_;
  plain_.clear();
  for (int c = peek(); c != kEnd && plain_.size() < 10; c = peek()) {
    if (kEnds.find(static_cast<char>(c)) != std::string_view::npos) break;
    plain_ += static_cast<char>(c);
    next();
  }
  at_ = saved;
  return plain_;
}

bool Parser::at_reserved(std::string_view word) { return peek_plain() == word; }

bool Parser::take_reserved(std::string_view word) { return at_reserved(word) && take_text(word); }

void Parser::expect_reserved(std::string_view word) {
  skip_newlines();
  if (!take_reserved(word)) fail("'" + std::string(word) + "' is missing");
}

}  // namespace tb::policy
