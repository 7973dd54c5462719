// SPDX-License-Identifier: Apache-2.0
// Parser: words, quotes and assignments.
#include "policy/parser.h"

namespace tb::policy {
namespace {

bool is_meta(int c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '|' || c == '&' || c == ';' || c == '(' ||
         c == ')' || c == '<' || c == '>';
}

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }

void append_utf8(std::string& text, unsigned long code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
    return;
  }
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static constexpr unsigned kLead[] = {0, 0xc0, 0xe0, 0xf0};
  text += static_cast<char>(kLead[more] | ((code >> (6 * more)) & 0x3f));
  while (more-- > 0) text += static_cast<char>(0x80 | ((code >> (6 * more)) & 0x3f));
}

// {Z..a} runs over `\`, `[` and the backtick, and bash then reads those as if they had been typed.
bool mixes_cases(const std::string& value) {
  for (std::size_t i = 0; i + 5 < value.size(); ++i) {
    if (value[i] != '{' || value[i + 2] != '.' || value[i + 3] != '.') continue;
    if ((is_lower(value[i + 1]) && is_upper(value[i + 4])) ||
        (is_upper(value[i + 1]) && is_lower(value[i + 4]))) {
      return true;
    }
  }
  return false;
}

void find_braces(Word& word) {
  const std::size_t open = word.value.find('{');
  if (open == std::string::npos || word.value.find('}', open) == std::string::npos) return;
  // Quoted braces count too: a false alarm costs a word that is_static() elsewhere.
  word.brace = word.brace || word.value.find(',', open) != std::string::npos ||
               word.value.find("..", open) != std::string::npos;
}

}  // namespace

Word Parser::read_word(Mode mode) {
  count_node();
  Word word;
  int c = peek();  // Before the offset: it may step over a continued line.
  word.at = offset();
  word.fixed = std::string::npos;
  const std::size_t begin = at_;
  bool open_brace = false;
  for (; c != kEnd; c = peek()) {
    if (c == '{') open_brace = true;
    if (!read_word_piece(word, mode, c)) break;
  }
  if (at_ == begin) fail("a word is missing here");
  if (open_brace) find_braces(word);
  if (word.brace && word.opaque) fail("'$' beside braces");
  if (word.brace && mixes_cases(word.value)) fail("a range from capital to small letters");
  if (word.fixed == std::string::npos) word.fixed = word.value.size();
  if (word.brace || word.glob) word.splits = true;
  return word;
}

// False at the word's end.
bool Parser::read_word_piece(Word& word, Mode mode, int c) {
  if ((c == '<' || c == '>') && ahead(1) == '(') {
    read_process(word);
    return true;
  }
  if (mode == Mode::regex && (c == '(' || c == '|')) {
    read_parenthesis(word, mode);
    return true;
  }
  if (is_meta(c)) return false;
  switch (c) {
    case '\\':
      next();
      if (at_ >= text_.size()) fail("a backslash at the end");
      word.value += text_[at_++];
      word.quoted = true;
      return true;
    case '\'': read_single_quoted(word); return true;
    case '"': read_double_quoted(word); return true;
    case '$': read_dollar(word, false); return true;
    case '`': read_backtick(word, false); return true;
    default: break;
  }
  const bool extended = c == '?' || c == '*' || c == '+' || c == '@' || c == '!';
  if (mode == Mode::pattern && extended && ahead(1) == '(') {
    next();
    read_parenthesis(word, mode);
    return true;
  }
  read_plain_byte(word, c);
  return true;
}

void Parser::read_plain_byte(Word& word, int c) {
  if (c == '[') word.bracket = true;
  if (c == '*' || c == '?' || (c == ']' && word.bracket)) word.glob = true;
  if (c == '~' && word.value.empty() && !word.quoted) word.tilde = true;
  word.value += static_cast<char>(c);
  next();
}

// Inside of [[ ]]: the parentheses of a regular expression or of an extended pattern, where blanks
// and operators are text.
void Parser::read_parenthesis(Word& word, Mode mode) {
  word.glob = true;
  if (take('|')) return;
  const Deeper deeper{*this};
  take('(');
  for (int c = peek(); c != ')'; c = peek()) {
    if (c == kEnd) fail("')' is missing");
    if (c == '(') {
      read_parenthesis(word, mode);
    } else if (!read_word_piece(word, Mode::normal, c)) {
      word.value += static_cast<char>(c);
      next();
    }
  }
  next();
}

void Parser::read_single_quoted(Word& word) {
  word.quoted = true;
  const std::size_t end = text_.find('\'', at_ + 1);
  if (end == std::string_view::npos) fail("a single quote is not closed");
  word.value += text_.substr(at_ + 1, end - at_ - 1);
  at_ = end + 1;
}

void Parser::read_double_quoted(Word& word) {
  const Deeper deeper{*this};
  word.quoted = true;
  const std::size_t begin = offset();
  next();
  for (;;) {
    const int c = peek();
    if (c == kEnd) throw SyntaxError{"a double quote is not closed", begin};
    if (c == '"') break;
    if (c == '$') {
      read_dollar(word, true);
    } else if (c == '`') {
      read_backtick(word, true);
    } else if (c == '\\') {
      next();
      const char escaped = at_ < text_.size() ? text_[at_] : ' ';
      if (escaped == '$' || escaped == '`' || escaped == '"' || escaped == '\\') {
        word.value += escaped;
        ++at_;
      } else {
        word.value += '\\';
      }
    } else {
      word.value += static_cast<char>(c);
      next();
    }
  }
  next();
}

// The text of a here-document: as in double quotes, but these are text themselves.
void Parser::read_body(Word& word) {
  word.fixed = std::string::npos;
  for (int c = peek(); c != kEnd; c = peek()) {
    if (c == '$') {
      read_dollar(word, true);
    } else if (c == '`') {
      read_backtick(word, true);
    } else if (c == '\\') {
      next();
      if (at_ < text_.size()) word.value += text_[at_++];
    } else {
      word.value += static_cast<char>(c);
      next();
    }
  }
}

void Parser::read_ansi_quoted(Word& word) {
  word.quoted = true;
  const std::size_t begin = offset();
  take('$');
  take('\'');
  while (at_ < text_.size() && text_[at_] != '\'') {
    if (text_[at_] == '\\') {
      append_ansi_escape(word);
    } else {
      word.value += text_[at_++];
    }
  }
  if (at_ >= text_.size()) throw SyntaxError{"a single quote is not closed", begin};
  ++at_;
}

unsigned long Parser::read_digits(unsigned base, unsigned most) {
  unsigned long value = 0;
  for (; most > 0 && at_ < text_.size(); --most, ++at_) {
    const char c = text_[at_];
    unsigned digit = 16;
    if (c >= '0' && c <= '9') digit = static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') digit = static_cast<unsigned>(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') digit = static_cast<unsigned>(c - 'A' + 10);
    if (digit >= base) break;
    value = value * base + digit;
  }
  return value;
}

void Parser::append_ansi_escape(Word& word) {
  static constexpr std::string_view kNames = "abeEfnrtv\\'\"?";
  static constexpr std::string_view kBytes = "\a\b\033\033\f\n\r\t\v\\'\"?";
  ++at_;
  if (at_ >= text_.size()) fail("a single quote is not closed");
  const char c = text_[at_];
  if (const auto index = kNames.find(c); index != std::string_view::npos) {
    word.value += kBytes[index];
    ++at_;
    return;
  }
  const std::size_t before = word.value.size();
  if (c >= '0' && c <= '7') {
    word.value += static_cast<char>(read_digits(8, 3));
  } else if (c == 'x' || c == 'u' || c == 'U') {
    const std::size_t digits = ++at_;
    const unsigned long code = read_digits(16, c == 'x' ? 2 : c == 'u' ? 4 : 8);
    if (at_ == digits || text_[digits - 1] == '{' || code > 0x10ffff) {
      word.opaque = true;
    } else if (c == 'x') {
      word.value += static_cast<char>(code);
    } else {
      append_utf8(word.value, code);
    }
  } else {
    // \c and what bash has no meaning for: the value is not worth knowing.
    word.opaque = true;
    word.value += '\\';
    if (c == 'c') ++at_;
    if (at_ < text_.size() && text_[at_] != '\'') word.value += text_[at_++];
    return;
  }
  // Bash ends the quoted text at a NUL.
  if (word.value.size() > before && word.value.back() == '\0') word.opaque = true;
}

// NAME=, NAME+= or NAME[…]= at a command's beginning, or an element of a compound value. False when
// there is none; then nothing was read.
bool Parser::read_assignment(Assignment& into) {
  const std::size_t saved = at_;
  const std::size_t nodes = budget_.nodes;
  peek();
  into.at = offset();
  for (int c = peek(); is_name_byte(c); c = peek()) {
    into.name += static_cast<char>(c);
    next();
  }
  const bool named = is_name(into.name);
  if (named && peek() == '[') {
    next();
    into.subscript = std::make_shared<Arith>(read_arith("]"));
    const int c = peek();
    // Elsewhere it would be a pattern that happens to look like an element.
    if (c != '=' && !(c == '+' && ahead(1) == '=')) fail("'=' is missing after a subscript");
  }
  into.append = named && peek() == '+' && ahead(1) == '=';
  if (into.append) next();
  if (!named || peek() != '=') {
    at_ = saved;
    budget_.nodes = nodes;
    into = Assignment{};
    return false;
  }
  next();
  read_assignment_value(into);
  return true;
}

void Parser::read_assignment_value(Assignment& into) {
  if (peek() == '(' && !into.name.empty() && !into.subscript) {
    read_elements(into);
    return;
  }
  const int c = peek();
  if (c == kEnd || (is_meta(c) && !((c == '<' || c == '>') && ahead(1) == '('))) {
    into.value.at = offset();
    return;
  }
  into.value = read_word();
}

// ( … ) after NAME=
void Parser::read_elements(Assignment& into) {
  const Deeper deeper{*this};
  into.compound = true;
  if (!pending_.empty()) fail("an array after '<<' on the same line");
  next();
  for (skip_newlines(); peek() != ')'; skip_newlines()) {
    if (peek() == kEnd) fail("')' is missing");
    Assignment element;
    element.at = offset();
    if (take('[')) {
      element.subscript = std::make_shared<Arith>(read_arith("]"));
      element.append = take('+');
      if (!take('=')) fail("'=' is missing after a subscript");
      read_assignment_value(element);
    } else {
      element.value = read_word();
    }
    into.elements.push_back(std::move(element));
  }
  next();
  // Bash would take the whole for one word, and the next one for the command.
  if (const int c = peek(); c != kEnd && !is_meta(c)) fail("text after the ')' of an array");
}

}  // namespace tb::policy
