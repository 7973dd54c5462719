// SPDX-License-Identifier: Apache-2.0
// Where a match is: the program itself is followed, step by step, with the place where each way
// through it began. Slower than the automaton, which only knows whether there is one.
#include <algorithm>

#include "match/regex.h"

namespace tb::match {
namespace {

bool is_word(unsigned char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || byte == '_';
}

// What stands on both sides of a place.
struct Place {
  bool at_begin;
  bool at_end;
  bool boundary;
  bool in_character;
};

Place look_at(std::string_view line, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(line[i]); };
  const bool at_end = at == line.size();
  const bool word_before = at > 0 && is_word(byte(at - 1));
  const bool word_after = !at_end && is_word(byte(at));
  return {at == 0, at_end, word_before != word_after, !at_end && (byte(at) & 0xc0) == 0x80};
}

bool passes(const Regex::Step& step, const Place& place) {
  switch (step.kind) {
    case Regex::Step::Kind::fork:
    case Regex::Step::Kind::jump: return true;
    case Regex::Step::Kind::begin: return place.at_begin;
    case Regex::Step::Kind::end: return place.at_end;
    case Regex::Step::Kind::boundary: return place.boundary;
    case Regex::Step::Kind::inside: return !place.boundary && !place.in_character;
    case Regex::Step::Kind::bytes:
    case Regex::Step::Kind::match: break;
  }
  return false;
}

}  // namespace

// Ways are kept in the order of their beginnings: of two that meet the earlier one goes on.
bool Regex::find(std::string_view line, std::size_t from, Span& span) {
  struct Way {
    std::uint32_t step;
    std::size_t begin;
  };
  std::vector<Way> ways;
  std::vector<Way> next;
  bool found = false;
  for (std::size_t at = from; at <= line.size(); ++at) {
    if (!found) ways.push_back({0, at});
    if (ways.empty()) break;
    const Place place = look_at(line, at);
    if (++round_ == 0) mark_.assign(mark_.size(), 0), round_ = 1;
    next.clear();
    for (const Way& way : ways) {
      if (found && way.begin > span.begin) break;
      stack_.assign(1, way.step);
      while (!stack_.empty()) {
        const std::uint32_t number = stack_.back();
        stack_.pop_back();
        if (mark_[number] == round_) continue;
        mark_[number] = round_;
        const Step& step = program_[number];
        if (step.kind == Step::Kind::match && at > way.begin) {
          found = true;
          span = {way.begin, at};
        }
        if (step.kind == Step::Kind::fork) stack_.push_back(step.other);
        if (passes(step, place)) stack_.push_back(step.next);
        if (step.kind != Step::Kind::bytes || at == line.size()) continue;
        const auto byte = static_cast<unsigned char>(line[at]);
        if (byte >= step.first && byte <= step.last) next.push_back({step.next, way.begin});
      }
    }
    ways.swap(next);
  }
  return found;
}

}  // namespace tb::match
