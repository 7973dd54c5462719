// SPDX-License-Identifier: Apache-2.0
// Parser: bytes, blanks, comments and here-documents.
#include "policy/parser.h"

namespace tb::policy {

bool is_name_start(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_byte(int c) { return is_name_start(c) || (c >= '0' && c <= '9'); }

bool is_name(std::string_view text) {
  if (text.empty() || !is_name_start(text[0])) return false;
  for (const char c : text) {
    if (!is_name_byte(c)) return false;
  }
  return true;
}

bool is_assignment_builtin(std::string_view name) {
  return name == "declare" || name == "typeset" || name == "local" || name == "export" ||
         name == "readonly";
}

int Parser::peek() {
  while (at_ + 1 < text_.size() && text_[at_] == '\\' && text_[at_ + 1] == '\n') at_ += 2;
  return at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : kEnd;
}

// The byte `count` bytes after the one that peek() gives.
int Parser::ahead(std::size_t count) {
  const std::size_t saved = at_;
  int c = peek();
  while (count-- > 0 && c != kEnd) {
    ++at_;
    c = peek();
  }
  at_ = saved;
  return c;
}

bool Parser::take(char c) {
  if (peek() != static_cast<unsigned char>(c)) return false;
  next();
  return true;
}

bool Parser::take_text(std::string_view operator_text) {
  const std::size_t saved = at_;
  for (const char c : operator_text) {
    if (!take(c)) {
      at_ = saved;
      return false;
    }
  }
  return true;
}

void Parser::fail(const std::string& message) const { throw SyntaxError{message, offset()}; }

void Parser::count_node() {
  if (budget_.nodes == 0) fail("too many words; send it in several commands");
  --budget_.nodes;
}

void Parser::skip_blanks() {
  for (int c = peek(); c == ' ' || c == '\t'; c = peek()) next();
  if (peek() != '#') return;
  while (at_ < text_.size() && text_[at_] != '\n') ++at_;  // A backslash continues no comment.
}

bool Parser::skip_newlines() {
  bool any = false;
  for (skip_blanks(); peek() == '\n'; skip_blanks()) {
    next();
    read_here_documents();
    any = true;
  }
  return any;
}

void Parser::read_here_documents() {
  std::vector<HereDocument> documents;
  documents.swap(pending_);
  for (const HereDocument& document : documents) {
    const std::size_t begin = offset();
    std::string body = here_body(document);
    Word& word = *document.body;
    word.at = begin;
    if (document.quoted) {
      word.value = std::move(body);
      continue;
    }
    if (body.size() > budget_.inner_bytes) fail("too much text in here-documents");
    budget_.inner_bytes -= body.size();
    const Deeper deeper{*this};
    Parser inner{body, budget_, depth_, begin};
    inner.read_body(word);
  }
}

std::string Parser::here_body(const HereDocument& document) {
  std::string body;
  for (;;) {
    if (at_ >= text_.size()) {
      throw SyntaxError{"here-document without its end, a line '" + document.delimiter + "'",
                        document.at};
    }
    std::string line = here_line(!document.quoted);
    if (document.strip_tabs) line.erase(0, line.find_first_not_of('\t'));
    if (line == document.delimiter) return body;
    // There bash also ends the document in the middle of such a line, and goes on with the rest.
    if (substitutions_ > 0 && line.starts_with(document.delimiter) &&
        line.find(')') != std::string::npos) {
      fail("a line that begins with the here-document's end word, inside of a substitution");
    }
    body += line;
    body += '\n';
  }
}

// One line; with `joined`, a backslash at its end takes the next one in, as bash reads it when the
// end word is not quoted.
std::string Parser::here_line(bool joined) {
  std::string line;
  bool escaped = false;
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (escaped) {
      escaped = false;
    } else if (c == '\n') {
      break;
    } else if (c == '\\' && joined) {
      if (at_ < text_.size() && text_[at_] == '\n') {
        ++at_;
        continue;
      }
      escaped = true;
    }
    line += c;
  }
  return line;
}

}  // namespace tb::policy
