// SPDX-License-Identifier: Apache-2.0
#include "match/regex_parser.h"

#include <algorithm>
#include <charconv>

namespace tb::match {
namespace {

constexpr int kMaxDepth = 100;  // of groups
constexpr char32_t kLastCharacter = 0x10ffff;

const CharacterRanges kDigits{{'0', '9'}};
const CharacterRanges kWords{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CharacterRanges kSpaces{{'\t', '\r'}, {' ', ' '}};

struct NamedSet {
  std::string_view name;
  CharacterRanges ranges;
};
const NamedSet kNamedSets[] = {
    {"alpha", {{'A', 'Z'}, {'a', 'z'}}},
    {"digit", kDigits},
    {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}},
    {"upper", {{'A', 'Z'}}},
    {"lower", {{'a', 'z'}}},
    {"space", kSpaces},
    {"blank", {{'\t', '\t'}, {' ', ' '}}},
    {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}},
    {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}},
    {"word", kWords},
};

CharacterRanges complement(CharacterRanges ranges) {
  std::sort(ranges.begin(), ranges.end(), [](auto a, auto b) { return a.first < b.first; });
  CharacterRanges rest;
  char32_t from = 0;
  for (const CharacterRange& range : ranges) {
    if (range.first > from) rest.push_back({from, range.first - 1});
    from = std::max<char32_t>(from, range.last + 1);
  }
  if (from <= kLastCharacter) rest.push_back({from, kLastCharacter});
  return rest;
}

void add_all(CharacterRanges& to, const CharacterRanges& from) {
  to.insert(to.end(), from.begin(), from.end());
}

// The same letters in the other case.
void fold_case(CharacterRanges& ranges) {
  const std::size_t count = ranges.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto shift = [&](char32_t first, char32_t last, int by) {
      const char32_t from = std::max(ranges[i].first, first);
      const char32_t to = std::min(ranges[i].last, last);
      if (from > to) return;
      const auto moved = [by](char32_t c) {
        return static_cast<char32_t>(static_cast<int>(c) + by);
      };
      ranges.push_back({moved(from), moved(to)});
    };
    shift('a', 'z', 'A' - 'a');
    shift('A', 'Z', 'a' - 'A');
  }
}

}  // namespace

RegexParser::Place RegexParser::fail(std::string what) {
  if (error_.empty()) error_ = std::move(what) + " at byte " + std::to_string(at_);
  return kNone;
}

RegexParser::Place RegexParser::add(Node node) {
  nodes_.push_back(std::move(node));
  return static_cast<Place>(nodes_.size() - 1);
}

bool RegexParser::take(std::string_view text) {
  if (!text_.substr(at_).starts_with(text)) return false;
  at_ += text.size();
  return true;
}

bool RegexParser::parse(std::vector<Step>& program, std::string& error) {
  Place top = kNone;
  if (text_.size() > Regex::kMaxPattern) {
    error_ = "longer than 4096 bytes";
  } else if (options_.literal) {
    top = parse_literal();
  } else {
    if (take("(?i)")) options_.ignore_case = true;
    top = parse_choice(0);
    if (top != kNone && more()) top = fail("a ) without its (");
  }
  if (top != kNone && (!emit(top) || !step(Step::Kind::match))) {
    error_ = "it stands for too much: fewer or smaller repetitions, please";
  }
  error = error_;
  program = std::move(program_);
  return error_.empty();
}

RegexParser::Place RegexParser::parse_literal() {
  Node all{.kind = Node::Kind::sequence};
  for (; more(); ++at_) {
    const auto c = static_cast<unsigned char>(text_[at_]);
    all.children.push_back(c < 0x80 ? characters({{c, c}})
                                    : add({.kind = Node::Kind::byte, .byte = c}));
  }
  return add(std::move(all));
}

RegexParser::Place RegexParser::parse_choice(int depth) {
  if (depth > kMaxDepth) return fail("groups nested more than 100 deep");
  Node choice{.kind = Node::Kind::choice};
  do {
    const Place one = parse_sequence(depth);
    if (one == kNone) return kNone;
    choice.children.push_back(one);
  } while (take("|"));
  return choice.children.size() == 1 ? choice.children.front() : add(std::move(choice));
}

RegexParser::Place RegexParser::parse_sequence(int depth) {
  Node sequence{.kind = Node::Kind::sequence};
  while (more() && text_[at_] != '|' && text_[at_] != ')') {
    Place one = parse_atom(depth);
    if (one != kNone) one = parse_repeat(one);
    if (one == kNone) return kNone;
    sequence.children.push_back(one);
  }
  return add(std::move(sequence));
}

RegexParser::Place RegexParser::condition(Step::Kind kind) {
  return add({.kind = Node::Kind::condition, .condition = kind});
}

RegexParser::Place RegexParser::characters(CharacterRanges ranges, bool negated) {
  if (options_.ignore_case) fold_case(ranges);
  if (negated) ranges = complement(std::move(ranges));
  return add({.kind = Node::Kind::characters, .ranges = std::move(ranges)});
}

RegexParser::Place RegexParser::parse_atom(int depth) {
  if (take("(")) return parse_group(depth);
  if (take("[")) return parse_set();
  if (take(".")) return characters({{'\n', '\n'}}, true);
  if (take("^")) return condition(Step::Kind::begin);
  if (take("$")) return condition(Step::Kind::end);
  if (take("\\")) return parse_escape();
  const char c = text_[at_];
  if (c == '*' || c == '+' || c == '?') return fail("nothing to repeat");
  const char32_t character = next_character(text_, at_);
  if (character < kBrokenByte) return characters({{character, character}});
  return add(
      {.kind = Node::Kind::byte, .byte = static_cast<std::uint8_t>(character - kBrokenByte)});
}

RegexParser::Place RegexParser::parse_group(int depth) {
  if (take("?:")) {
    // Nobody asks for what it matched, so all groups are alike.
  } else if (take("?P<") || (text_.substr(at_).starts_with("?<") && at_ + 2 < text_.size() &&
                             text_[at_ + 2] != '=' && text_[at_ + 2] != '!' && take("?<"))) {
    const std::size_t end = text_.find('>', at_);
    if (end == std::string_view::npos) return fail("a group's name without its >");
    at_ = end + 1;
  } else if (more() && text_[at_] == '?') {
    return fail("a group that looks around, refers back or sets flags: there is none here");
  }
  const Place inside = parse_choice(depth + 1);
  if (inside == kNone) return kNone;
  return take(")") ? inside : fail("a ( without its )");
}

bool RegexParser::parse_counts(int& least, int& most) {
  const std::size_t end = text_.find('}', at_);
  if (end == std::string_view::npos) return false;
  const char* from = text_.data() + at_;
  const char* const to = text_.data() + end;
  auto result = std::from_chars(from, to, least);
  if (result.ec != std::errc{} || least < 0) return false;
  most = least;
  if (result.ptr != to) {
    if (*result.ptr != ',') return false;
    most = kForever;
    if (result.ptr + 1 != to) {
      result = std::from_chars(result.ptr + 1, to, most);
      if (result.ec != std::errc{} || result.ptr != to || most < 0) return false;
    }
  }
  at_ = end + 1;
  return true;
}

RegexParser::Place RegexParser::parse_repeat(Place what) {
  Node node{.kind = Node::Kind::repeat, .children = {what}, .most = kForever};
  const std::size_t start = at_;
  if (take("+")) {
    node.least = 1;
  } else if (take("?")) {
    node.most = 1;
  } else if (take("{")) {
    if (!parse_counts(node.least, node.most)) {  // a brace that means itself
      at_ = start;
      return what;
    }
    if (std::max(node.least, node.most) > Regex::kMaxRepeat) {
      return fail("more than 1000 repetitions");
    }
    if (node.most != kForever && node.most < node.least) {
      return fail("repetitions that end before they begin");
    }
  } else if (!take("*")) {
    return what;
  }
  take("?");  // as few as possible: the same lines match
  if (more() && (text_[at_] == '*' || text_[at_] == '+' || text_[at_] == '?')) {
    return fail("a repetition of a repetition: put the first one in parentheses");
  }
  return add(std::move(node));
}

bool RegexParser::parse_hexadecimal(char32_t& to) {
  const bool braced = take("{");
  const std::size_t end = braced ? text_.find('}', at_) : std::min(at_ + 2, text_.size());
  std::uint32_t value = 0;
  if (end != std::string_view::npos && end > at_) {
    const auto [stop, error] = std::from_chars(text_.data() + at_, text_.data() + end, value, 16);
    if (error == std::errc{} && stop == text_.data() + end && value <= kLastCharacter &&
        (braced || end - at_ == 2)) {
      at_ = end + (braced ? 1 : 0);
      to = value;
      return true;
    }
  }
  fail("\\x wants two hexadecimal digits, or {digits}");
  return false;
}

// What stands after a backslash and is one character.
bool RegexParser::parse_character_escape(char32_t& to) {
  constexpr std::string_view kNames = "nrtfv0a";
  constexpr std::string_view kMeant{"\n\r\t\f\v\0\a", 7};
  if (!more()) return fail("a \\ at the end"), false;
  if (take("x")) return parse_hexadecimal(to);
  const char c = text_[at_];
  const std::size_t name = kNames.find(c);
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9');
  if (name == std::string_view::npos && letter) {
    fail(std::string{"\\"} + c + " means nothing here");
    return false;
  }
  if (name == std::string_view::npos) return to = next_character(text_, at_), true;
  ++at_;
  to = static_cast<unsigned char>(kMeant[name]);
  return true;
}

RegexParser::Place RegexParser::parse_escape() {
  if (take("d")) return characters(kDigits);
  if (take("D")) return characters(kDigits, true);
  if (take("w")) return characters(kWords);
  if (take("W")) return characters(kWords, true);
  if (take("s")) return characters(kSpaces);
  if (take("S")) return characters(kSpaces, true);
  if (take("b")) return condition(Step::Kind::boundary);
  if (take("B")) return condition(Step::Kind::inside);
  if (take("A")) return condition(Step::Kind::begin);
  if (take("z") || take("Z")) return condition(Step::Kind::end);
  char32_t c = 0;
  if (!parse_character_escape(c)) return kNone;
  return c < kBrokenByte ? characters({{c, c}}) : fail("\\ before a byte that is no character");
}

bool RegexParser::parse_named_set(CharacterRanges& ranges) {
  const std::size_t end = text_.find(":]", at_);
  if (end == std::string_view::npos) return fail("a [: without its :]"), false;
  std::string_view name = text_.substr(at_, end - at_);
  const bool negated = name.starts_with('^');
  if (negated) name.remove_prefix(1);
  for (const NamedSet& set : kNamedSets) {
    if (set.name != name) continue;
    add_all(ranges, negated ? complement(set.ranges) : set.ranges);
    at_ = end + 2;
    return true;
  }
  return fail("an unknown name in [: :]"), false;
}

// One character of a set, or a set in the set: then `range` is empty.
bool RegexParser::parse_set_end(CharacterRanges& ranges, CharacterRange& range) {
  range = {1, 0};
  if (take("[:")) return parse_named_set(ranges);
  char32_t c = 0;
  if (take("\\")) {
    struct Letter {
      std::string_view letter;
      const CharacterRanges& ranges;
      bool negated;
    };
    const Letter kLetters[] = {{"d", kDigits, false}, {"D", kDigits, true},  {"w", kWords, false},
                               {"W", kWords, true},   {"s", kSpaces, false}, {"S", kSpaces, true}};
    for (const Letter& letter : kLetters) {
      if (!take(letter.letter)) continue;
      add_all(ranges, letter.negated ? complement(letter.ranges) : letter.ranges);
      return true;
    }
    if (take("b")) {
      c = '\b';
    } else if (!parse_character_escape(c)) {
      return false;
    }
  } else {
    c = next_character(text_, at_);
  }
  if (c >= kBrokenByte) return fail("a byte in [] that is no character"), false;
  range = {c, c};
  return true;
}

RegexParser::Place RegexParser::parse_set() {
  CharacterRanges ranges;
  const bool negated = take("^");
  bool first = true;
  while (more() && (text_[at_] != ']' || first)) {
    first = false;
    CharacterRange range;
    if (!parse_set_end(ranges, range)) return kNone;
    if (range.first > range.last) continue;
    if (at_ + 1 < text_.size() && text_[at_] == '-' && text_[at_ + 1] != ']') {
      ++at_;
      CharacterRange last;
      if (!parse_set_end(ranges, last)) return kNone;
      if (last.first > last.last || last.first < range.first) return fail("a bad range in []");
      range.last = last.last;
    }
    ranges.push_back(range);
  }
  if (!take("]")) return fail("a [ without its ]");
  if (negated) ranges.push_back({'\n', '\n'});
  return characters(std::move(ranges), negated);
}

}  // namespace tb::match
