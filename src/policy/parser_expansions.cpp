// SPDX-License-Identifier: Apache-2.0
// Parser: what begins with $ or a backtick, process substitutions, arithmetic.
#include "policy/parser.h"

namespace tb::policy {
namespace {

bool is_special_parameter(int c) {
  return c == '@' || c == '*' || c == '#' || c == '?' || c == '-' || c == '$' || c == '!' ||
         (c >= '0' && c <= '9');
}

}  // namespace

void Parser::add(Word& word, Expansion expansion) {
  if (word.fixed == std::string::npos) word.fixed = word.value.size();
  const Param* param = expansion.param.get();
  const bool many = param != nullptr && (param->all || param->name == "@");
  if (!expansion.quoted || many) word.splits = true;
  word.expansions.push_back(std::move(expansion));
}

void Parser::read_dollar(Word& word, bool quoted) {
  const Deeper deeper{*this};
  const int c = ahead(1);
  Expansion expansion;
  expansion.at = offset();
  expansion.quoted = quoted;
  if (c == '\'' && !quoted) return read_ansi_quoted(word);
  if (c == '"' && !quoted) {
    next();
    peek();
    return read_double_quoted(word);
  }
  if (c == '(' || c == '[') {
    next();
    if (take('[')) {
      expansion.kind = Expansion::Kind::arith;
      expansion.arith = std::make_shared<Arith>(read_arith("]"));
    } else if (ahead(1) == '(') {
      take('(');
      take('(');
      expansion.kind = Expansion::Kind::arith;
      expansion.arith = std::make_shared<Arith>(read_arith("))"));
    } else {
      take('(');
      expansion.script = std::make_shared<Script>(read_parenthesized());
    }
    return add(word, std::move(expansion));
  }
  if (c == '{' || is_name_start(c) || is_special_parameter(c)) {
    next();
    return add(word, read_parameter(quoted));
  }
  word.value += '$';
  // Braces beside it could still make it the beginning of an expansion.
  if (!quoted) word.opaque = true;
  next();
}

// After the opening parenthesis, up to and with the closing one.
Script Parser::read_parenthesized() {
  const Deeper deeper{*this};
  std::vector<HereDocument> outer;
  outer.swap(pending_);
  ++substitutions_;
  const std::size_t begin = at_;
  Script script = read_script(&Parser::at_parenthesis);
  if (!outer.empty() && text_.substr(begin, at_ - begin).find('\n') != std::string_view::npos) {
    fail("a substitution over several lines after '<<'");
  }
  if (!pending_.empty()) fail("a here-document that begins after its substitution has ended");
  if (!take(')')) fail("')' is missing");
  --substitutions_;
  pending_.swap(outer);
  return script;
}

void Parser::read_process(Word& word) {
  Expansion expansion;
  expansion.kind = Expansion::Kind::process;
  expansion.at = offset();
  expansion.quoted = true;
  next();
  take('(');
  expansion.script = std::make_shared<Script>(read_parenthesized());
  add(word, std::move(expansion));
}

void Parser::read_backtick(Word& word, bool quoted) {
  const Deeper deeper{*this};
  const std::size_t begin = offset();
  std::string inner;
  ++at_;
  for (;; ++at_) {
    if (at_ >= text_.size()) throw SyntaxError{"a backtick is not closed", begin};
    char c = text_[at_];
    if (c == '`') break;
    if (c == '\\' && at_ + 1 < text_.size()) {
      const char escaped = text_[at_ + 1];
      // Joined before the inner text is read, quotes and here-documents in it or not.
      if (escaped == '\n') {
        ++at_;
        continue;
      }
      // In double quotes the backslash goes, in a here-document or in ${ } it stays.
      if (quoted && escaped == '"') fail("'\\\"' in backticks in quotes; use $( )");
      if (escaped == '`' || escaped == '\\' || escaped == '$') {
        c = escaped;
        ++at_;
      }
    }
    inner += c;
  }
  ++at_;
  if (inner.size() > budget_.inner_bytes) fail("too much text in backticks");
  budget_.inner_bytes -= inner.size();
  Expansion expansion;
  expansion.at = begin;
  expansion.quoted = quoted;
  Parser parser{inner, budget_, depth_, begin};
  expansion.script = std::make_shared<Script>(parser.parse());
  add(word, std::move(expansion));
}

// After the $.
Expansion Parser::read_parameter(bool quoted) {
  Expansion expansion;
  expansion.kind = Expansion::Kind::param;
  expansion.at = offset();
  expansion.quoted = quoted;
  expansion.param = std::make_shared<Param>();
  Param& param = *expansion.param;
  if (!take('{')) {
    int c = peek();
    param.name = static_cast<char>(c);
    next();
    if (!is_name_start(c)) return expansion;
    for (c = peek(); is_name_byte(c); c = peek()) {
      param.name += static_cast<char>(c);
      next();
    }
    return expansion;
  }
  read_braced_name(param);
  if (!take('}')) {
    read_operator(param, quoted);
    if (!take('}')) fail("'}' is missing");
  }
  return expansion;
}

void Parser::read_braced_name(Param& param) {
  const int first = peek();
  const int second = ahead(1);
  const bool more = is_name_byte(second) || second == '@' || second == '*';
  if (first == '#' && (more || second == '?' || second == '$' || second == '!')) {
    param.length = take('#');
  } else if (first == '!' && (more || second == '#' || second == '?' || second == '!')) {
    param.indirect = take('!');
  }
  const int c = peek();
  if (is_name_start(c) || (c >= '0' && c <= '9')) {
    const bool digits = !is_name_start(c);
    for (int d = peek(); digits ? d >= '0' && d <= '9' : is_name_byte(d); d = peek()) {
      param.name += static_cast<char>(d);
      next();
    }
  } else if (is_special_parameter(c)) {
    param.name = static_cast<char>(c);
    next();
  } else {
    fail("a parameter's name is missing after '${'");
  }
  if (!take('[')) return;
  Arith subscript = read_arith("]");
  param.all = subscript.text == "@" || subscript.text == "*";
  if (!param.all) param.subscript = std::make_shared<Arith>(std::move(subscript));
}

void Parser::read_operator(Param& param, bool quoted) {
  const int c = peek();
  const int second = ahead(1);
  if (param.indirect && (c == '*' || c == '@') && second == '}') {
    param.all = true;
    next();
    return;
  }
  if (c == '@') return read_transform(param);
  const bool colon = c == ':';
  const int word_operator = colon ? second : c;
  if (word_operator == '-' || word_operator == '=' || word_operator == '?' ||
      word_operator == '+') {
    if (colon) next();
    next();
    param.op = (colon ? ":" : "") + std::string(1, static_cast<char>(word_operator));
    param.words.push_back(read_operand(quoted, false));
  } else if (colon) {
    next();
    read_slice(param);
  } else if (c == '#' || c == '%' || c == '^' || c == ',') {
    next();
    take(static_cast<char>(c));
    param.op = static_cast<char>(c);
    param.words.push_back(read_operand(quoted, false));
  } else if (c == '/') {
    next();
    param.op = peek() == '/' ? "//" : "/";
    if (peek() == '/' || peek() == '#' || peek() == '%') next();
    param.words.push_back(read_operand(quoted, true));
    if (take('/')) param.words.push_back(read_operand(quoted, false));
  } else {
    fail("an expansion that is not known");
  }
}

void Parser::read_slice(Param& param) {
  param.op = ":";
  param.offsets.push_back(read_arith("}"));
  --at_;  // Our caller takes the brace.
}

void Parser::read_transform(Param& param) {
  next();
  const int c = peek();
  static constexpr std::string_view kKnown = "UuLQEPAKak";
  if (c == kEnd || kKnown.find(static_cast<char>(c)) == std::string_view::npos) {
    fail("an expansion that is not known");
  }
  param.op = std::string("@") + static_cast<char>(c);
  next();
}

// A word inside of ${ }, up to its brace.
Word Parser::read_operand(bool quoted, bool until_slash) {
  const Deeper deeper{*this};
  count_node();
  Word word;
  word.at = offset();
  word.fixed = std::string::npos;
  for (int c = peek(); c != '}'; c = peek()) {
    if (c == kEnd) fail("'}' is missing");
    if (until_slash && c == '/' && !word.value.empty()) break;
    // Bash's parser takes these for quotes and its expander for text, and the other way round.
    if (quoted && c == '\'') fail("a single quote in ${ } in double quotes; use a variable");
    if (quoted && (c == '<' || c == '>') && ahead(1) == '(') fail("'(' in ${ } in double quotes");
    if (c == '$') {
      read_dollar(word, quoted);
    } else if (c == '`') {
      read_backtick(word, quoted);
    } else if (!read_word_piece(word, Mode::normal, c)) {
      word.value += static_cast<char>(c);
      next();
    }
  }
  if (word.fixed == std::string::npos) word.fixed = word.value.size();
  return word;
}

// Up to and with `close`: "))", "]" or "}".
Arith Parser::read_arith(std::string_view close) {
  const Deeper deeper{*this};
  count_node();
  Arith arith;
  arith.at = offset();
  const char open = close[0] == ')' ? '(' : close[0] == ']' ? '[' : '{';
  int nested = 0;
  for (;;) {
    const int c = peek();
    if (c == kEnd) fail(std::string("'") + std::string(close) + "' is missing");
    if (c == close[0] && nested == 0) {
      if (close.size() == 1 || ahead(1) == ')') break;
      fail("')' of an arithmetic expression; if these are commands, write '( (' with a blank");
    }
    if (c == open) ++nested;
    if (c == close[0]) --nested;
    if (nested > kMaxDepth) fail("nested too deeply; write it in several commands");
    if (c == '{' || (c == ';' && close == "]") || !read_arith_piece(arith, c, close == "]")) {
      fail("not an arithmetic expression");
    }
  }
  next();
  if (close.size() == 2) take(')');
  return arith;
}

bool Parser::read_arith_piece(Arith& arith, int c, bool quotes_allowed) {
  if (c == '$' || c == '`') {
    Word word;
    if (c == '$') {
      read_dollar(word, true);
    } else {
      read_backtick(word, true);
    }
    if (word.expansions.empty()) return false;
    arith.text += Arith::kExpanded;
    arith.expansions.push_back(std::move(word.expansions.front()));
    return true;
  }
  if (c == '\'' || c == '\\' || c == '"') {
    if (c != '"' && !quotes_allowed) return false;
    read_arith_quoted(arith, c);
    return true;
  }
  arith.text += static_cast<char>(c);
  next();
  return true;
}

void Parser::read_arith_quoted(Arith& arith, int c) {
  Word word;
  if (c == '"') {
    read_double_quoted(word);
  } else if (c == '\'') {
    read_single_quoted(word);
  } else {
    next();
    if (at_ >= text_.size()) fail("a backslash at the end");
    word.value = text_[at_++];
  }
  for (const char inside : word.value) {
    if (!is_name_byte(static_cast<unsigned char>(inside))) arith.quotes = true;
  }
  arith.text += word.value;
  for (Expansion& expansion : word.expansions) {
    arith.text += Arith::kExpanded;
    arith.expansions.push_back(std::move(expansion));
  }
}

}  // namespace tb::policy
