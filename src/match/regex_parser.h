// SPDX-License-Identifier: Apache-2.0
// From the text of a regular expression to a tree, and from that to the steps of its program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "match/regex.h"

namespace tb::match {

using CharacterRanges = std::vector<CharacterRange>;

class RegexParser {
 public:
  RegexParser(std::string_view pattern, RegexOptions options) : text_(pattern), options_(options) {}
  // The program begins at its step 0. False: `error` says what is wrong.
  bool parse(std::vector<Regex::Step>& program, std::string& error);

 private:
  using Step = Regex::Step;
  using Place = std::uint32_t;  // of a node
  static constexpr Place kNone = 0xffffffff;
  static constexpr int kForever = -1;

  struct Node {
    enum class Kind { characters, byte, condition, sequence, choice, repeat } kind;
    CharacterRanges ranges = {};  // of characters
    std::uint8_t byte = 0;        // of byte
    Step::Kind condition = {};    // of condition
    std::vector<Place> children = {};
    int least = 0;  // of repeat
    int most = 0;
  };

  // ---- text to tree; kNone: failed ----
  Place fail(std::string what);
  Place add(Node node);
  bool more() const { return at_ < text_.size(); }
  bool take(std::string_view text);
  Place parse_literal();
  Place parse_choice(int depth);
  Place parse_sequence(int depth);
  Place parse_atom(int depth);
  Place parse_group(int depth);
  Place parse_repeat(Place what);
  bool parse_counts(int& least, int& most);
  Place parse_escape();
  Place parse_set();
  bool parse_set_end(CharacterRanges& ranges, CharacterRange& range);
  bool parse_named_set(CharacterRanges& ranges);
  bool parse_character_escape(char32_t& to);
  bool parse_hexadecimal(char32_t& to);
  Place condition(Step::Kind kind);
  Place characters(CharacterRanges ranges, bool negated = false);

  // ---- tree to program; false: too large ----
  bool emit(Place place);
  bool emit_repeat(const Node& node);
  bool emit_choice(const Node& node);
  bool emit_characters(const CharacterRanges& ranges);
  bool step(Step::Kind kind, unsigned first = 0, unsigned last = 0);
  std::uint32_t here() const { return static_cast<std::uint32_t>(program_.size()); }

  std::string_view text_;
  RegexOptions options_;
  std::size_t at_ = 0;
  std::vector<Node> nodes_;
  std::vector<Step> program_;
  std::size_t work_ = 0;
  std::string error_;
};

}  // namespace tb::match
