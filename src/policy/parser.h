// SPDX-License-Identifier: Apache-2.0
// Bash text → tree, as bash 5.2 reads it without extglob, aliases and history expansion. One pass,
// recursion bounded by kMaxDepth. Where bash's own reading depends on state that the text does not
// show, or differs between its parser and its expander, the answer is a SyntaxError.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "policy/ast.h"

namespace tb::policy {

// Nesting of constructs; people's scripts stay below 20.
inline constexpr int kMaxDepth = 100;
// Words and commands of one text: bounds the memory of a tree.
inline constexpr std::size_t kMaxNodes = 300'000;

struct SyntaxError {
  std::string message;
  std::size_t at = 0;
};

// What parsing one request may use, shared by the texts inside of its text.
struct Budget {
  std::size_t nodes = kMaxNodes;
  std::size_t inner_bytes = std::size_t{4} << 20;  // Backticks, eval, here-documents.
};

bool is_name(std::string_view text);
bool is_name_byte(int c);
bool is_name_start(int c);
bool is_assignment_builtin(std::string_view name);

class Parser {
 public:
  // `origin`: all offsets of an inner text are this one; npos for the outermost.
  Parser(std::string_view text, Budget& budget, int depth = 0,
         std::size_t origin = std::string_view::npos)
      : text_(text), budget_(budget), depth_(depth), origin_(origin) {}

  Script parse();  // Throws SyntaxError.

 private:
  static constexpr int kEnd = -1;
  enum class Mode { normal, pattern, regex };
  struct HereDocument {
    std::string delimiter;
    bool quoted = false;
    bool strip_tabs = false;
    std::shared_ptr<Word> body;
    std::size_t at = 0;
  };
  class Deeper;

  // Bytes (parser_text.cpp).
  int peek();  // Steps over backslash-newline.
  int ahead(std::size_t count);
  void next() { ++at_; }
  bool take(char c);
  bool take_text(std::string_view operator_text);
  std::size_t offset() const { return offset_of(at_); }
  std::size_t offset_of(std::size_t at) const {
    return origin_ == std::string_view::npos ? at : origin_;
  }
  [[noreturn]] void fail(const std::string& message) const;
  void count_node();
  void skip_blanks();
  // Blanks, comments, newlines and the here-documents that begin there. True after a newline.
  bool skip_newlines();
  void read_here_documents();
  std::string here_body(const HereDocument& document);
  std::string here_line(bool joined);

  // Words (parser_words.cpp).
  Word read_word(Mode mode = Mode::normal);
  bool read_word_piece(Word& word, Mode mode, int c);
  void read_plain_byte(Word& word, int c);
  void read_parenthesis(Word& word, Mode mode);
  void read_single_quoted(Word& word);
  void read_double_quoted(Word& word);
  void read_ansi_quoted(Word& word);
  void append_ansi_escape(Word& word);
  unsigned long read_digits(unsigned base, unsigned most);
  void read_body(Word& word);  // The text of a here-document.
  bool read_assignment(Assignment& into);
  void read_assignment_value(Assignment& into);
  void read_elements(Assignment& into);

  // Expansions (parser_expansions.cpp).
  void read_dollar(Word& word, bool quoted);
  void read_backtick(Word& word, bool quoted);
  void read_process(Word& word);
  Expansion read_parameter(bool quoted);
  void read_braced_name(Param& param);
  void read_operator(Param& param, bool quoted);
  void read_slice(Param& param);
  void read_transform(Param& param);
  Word read_operand(bool quoted, bool until_slash);
  Arith read_arith(std::string_view close);
  bool read_arith_piece(Arith& arith, int c, bool quotes_allowed);
  void read_arith_quoted(Arith& arith, int c);
  Script read_parenthesized();
  void add(Word& word, Expansion expansion);

  // Commands (parser_commands.cpp, parser_compounds.cpp).
  Script read_script(bool (Parser::*at_end)());
  void read_and_or(Script& script);
  Pipeline read_pipeline();
  void skip_prefixes();
  Command read_command();
  Command read_simple();
  bool read_simple_piece(Command& command);
  void read_argument(Command& command);
  bool read_redirect(Command& command, const Word* fd);
  void read_redirects(Command& command);
  bool at_reserved(std::string_view word);
  bool take_reserved(std::string_view word);
  void expect_reserved(std::string_view word);
  std::string_view peek_plain();
  bool at_text_end();
  bool at_closing_word();
  bool at_parenthesis();
  bool at_clause_end();
  bool read_compound(Command& command);
  Script read_block();
  void read_if(Command& command);
  void read_loop(Command& command);
  void read_for(Command& command, bool select);
  void read_loop_body(Command& command);
  void read_case(Command& command);
  void read_function(Command& command, bool keyword);
  void read_coprocess(Command& command);
  void read_test(Command& command, int level);
  void read_test_term(Command& command, int level);
  void read_test_operand(Command& command, const Word& left);
  bool at_test_end();
  void test_blanks();
  bool at_term_end();

  std::string_view text_;
  Budget& budget_;
  int depth_;
  std::size_t origin_;
  std::size_t at_ = 0;
  int substitutions_ = 0;  // Inside of this many $( ) and <( ).
  std::vector<HereDocument> pending_;
  std::string plain_;  // What peek_plain() answered.
};

// One more level of nesting, for as long as it lives.
class Parser::Deeper {
 public:
  explicit Deeper(Parser& parser) : parser_(parser) {
    if (++parser_.depth_ > kMaxDepth) {
      --parser_.depth_;
      parser_.fail("nested too deeply; write it in several commands");
    }
  }
  ~Deeper() { --parser_.depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  Parser& parser_;
};

}  // namespace tb::policy
