// SPDX-License-Identifier: Apache-2.0
// From the tree of a regular expression to the steps of its program.
#include <algorithm>

#include "match/regex_parser.h"

namespace tb::match {
namespace {

struct ByteRange {
  std::uint8_t first;
  std::uint8_t last;
};
using ByteSequence = std::vector<ByteRange>;

// The sequences of byte ranges that are the UTF-8 of a range of characters.
void to_bytes(CharacterRange whole, std::vector<ByteSequence>& to) {
  std::vector<CharacterRange> open{whole};
  while (!open.empty()) {
    const auto [a, b] = open.back();
    open.pop_back();
    char32_t cut = 0;  // where the second half begins
    for (const char32_t end : {char32_t{0x7f}, char32_t{0x7ff}, char32_t{0xffff}}) {
      if (a <= end && b > end) cut = end + 1;
    }
    for (int i = 1; cut == 0 && b >= 0x80 && i < 4; ++i) {
      const char32_t tail = (char32_t{1} << (6 * i)) - 1;
      if ((a & ~tail) == (b & ~tail)) continue;
      if ((a & tail) != 0) {
        cut = (a | tail) + 1;
      } else if ((b & tail) != tail) {
        cut = b & ~tail;
      }
    }
    if (cut != 0) {
      open.push_back({cut, b});
      open.push_back({a, cut - 1});
      continue;
    }
    const std::string first = encode_character(a);
    const std::string last = encode_character(b);
    ByteSequence sequence;
    for (std::size_t i = 0; i < first.size(); ++i) {
      sequence.push_back({static_cast<std::uint8_t>(first[i]), static_cast<std::uint8_t>(last[i])});
    }
    to.push_back(std::move(sequence));
  }
}

}  // namespace

bool RegexParser::step(Step::Kind kind, unsigned first, unsigned last) {
  if (program_.size() >= Regex::kMaxSteps) return false;
  program_.push_back(
      {kind, static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), here() + 1, 0});
  return true;
}

bool RegexParser::emit(Place place) {
  constexpr std::size_t kMaxWork = 200000;  // repetitions of nothing make no steps
  if (++work_ > kMaxWork) return false;
  const Node& node = nodes_[place];
  switch (node.kind) {
    case Node::Kind::characters: return emit_characters(node.ranges);
    case Node::Kind::byte: return step(Step::Kind::bytes, node.byte, node.byte);
    case Node::Kind::condition: return step(node.condition);
    case Node::Kind::choice: return emit_choice(node);
    case Node::Kind::repeat: return emit_repeat(node);
    case Node::Kind::sequence: break;
  }
  return std::all_of(node.children.begin(), node.children.end(),
                     [this](Place child) { return emit(child); });
}

bool RegexParser::emit_choice(const Node& node) {
  std::vector<std::uint32_t> ends;
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const std::uint32_t fork = here();
    const bool last = i + 1 == node.children.size();
    if (!last && !step(Step::Kind::fork)) return false;
    if (!emit(node.children[i])) return false;
    if (last) break;
    ends.push_back(here());
    if (!step(Step::Kind::jump)) return false;
    program_[fork].other = here();
  }
  for (const std::uint32_t end : ends) program_[end].next = here();
  return true;
}

bool RegexParser::emit_repeat(const Node& node) {
  const Place what = node.children.front();
  std::uint32_t again = here();
  for (int i = 0; i < node.least; ++i) {
    again = here();
    if (!emit(what)) return false;
  }
  std::vector<std::uint32_t> forks;
  if (node.most == kForever && node.least > 0) {
    if (!step(Step::Kind::fork)) return false;
    program_.back().other = again;
    return true;
  }
  const int optional = node.most == kForever ? 1 : node.most - node.least;
  for (int i = 0; i < optional; ++i) {
    forks.push_back(here());
    if (!step(Step::Kind::fork) || !emit(what)) return false;
  }
  if (node.most == kForever) {
    if (!step(Step::Kind::jump)) return false;
    program_.back().next = forks.front();
  }
  for (const std::uint32_t fork : forks) program_[fork].other = here();
  return true;
}

bool RegexParser::emit_characters(const CharacterRanges& ranges) {
  std::vector<ByteSequence> sequences;
  for (const CharacterRange& range : ranges) to_bytes(range, sequences);
  std::vector<std::uint32_t> ends;
  // Without a sequence nothing fits: a condition that never holds, an end before a byte.
  if (sequences.empty()) return step(Step::Kind::end) && step(Step::Kind::bytes, 0, 255);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const bool last = i + 1 == sequences.size();
    const std::uint32_t fork = here();
    if (!last && !step(Step::Kind::fork)) return false;
    for (const ByteRange& byte : sequences[i]) {
      if (!step(Step::Kind::bytes, byte.first, byte.last)) return false;
    }
    if (last) break;
    ends.push_back(here() - 1);
    program_[fork].other = here();
  }
  for (const std::uint32_t end : ends) program_[end].next = here();
  return true;
}

}  // namespace tb::match
