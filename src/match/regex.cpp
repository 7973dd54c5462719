// SPDX-License-Identifier: Apache-2.0
#include "match/regex.h"

#include <algorithm>

#include "match/regex_parser.h"

namespace tb::match {
namespace {

bool is_word(unsigned byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || byte == '_';
}

}  // namespace

bool Regex::compile(std::string_view pattern, RegexOptions options, Regex& to, std::string& error) {
  Regex regex;
  if (!RegexParser{pattern, options}.parse(regex.program_, error)) return false;
  regex.find_classes();
  regex.mark_.assign(regex.program_.size(), 0);
  regex.forget();
  to = std::move(regex);
  return true;
}

// Bytes that no step tells apart are one class; conditions tell words from the rest, and the
// middle of a character from its ends.
void Regex::find_classes() {
  std::array<bool, 257> begins{};
  begins[0] = begins[0x80] = begins[0xc0] = true;
  for (const Step& step : program_) {
    if (step.kind != Step::Kind::bytes) continue;
    begins[step.first] = true;
    begins[step.last + 1u] = true;
  }
  for (unsigned byte = 1; byte < 256; ++byte) {
    if (is_word(byte) != is_word(byte - 1)) begins[byte] = true;
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (begins[byte]) sample_.push_back(static_cast<std::uint8_t>(byte));
    class_of_[byte] = static_cast<std::uint16_t>(sample_.size() - 1);
  }
}

void Regex::forget() {
  states_.clear();
  known_.clear();
  held_ = 0;
  start_ = state_of(Before::nothing, {});
  now_ = start_;
}

std::uint32_t Regex::state_of(Before before, std::vector<std::uint32_t> steps) {
  const auto [at, added] =
      known_.try_emplace({before, steps}, static_cast<std::uint32_t>(states_.size()));
  if (added) {
    held_ += 2 * steps.size() + sample_.size();
    states_.push_back(
        {before, std::move(steps), std::vector<std::uint32_t>(sample_.size() + 1, kUnknown)});
  }
  return at->second;
}

// All steps that can be reached without a byte, given what stands on both sides; every place is a
// place where a match may begin. True: one of them is the match.
bool Regex::close(const State& from, unsigned symbol) {
  const bool at_end = symbol == sample_.size();
  const bool word_after = !at_end && is_word(sample_[symbol]);
  const bool in_character = !at_end && (sample_[symbol] & 0xc0) == 0x80;
  const bool boundary = (from.before == Before::word) != word_after;
  if (++round_ == 0) mark_.assign(mark_.size(), 0), round_ = 1;
  closed_.clear();
  stack_.assign(from.steps.begin(), from.steps.end());
  stack_.push_back(0);
  while (!stack_.empty()) {
    const std::uint32_t at = stack_.back();
    stack_.pop_back();
    if (mark_[at] == round_) continue;
    mark_[at] = round_;
    const Step& step = program_[at];
    bool passes = false;
    switch (step.kind) {
      case Step::Kind::match: return true;
      case Step::Kind::bytes: closed_.push_back(at); break;
      case Step::Kind::fork: stack_.push_back(step.other); [[fallthrough]];
      case Step::Kind::jump: passes = true; break;
      case Step::Kind::begin: passes = from.before == Before::nothing; break;
      case Step::Kind::end: passes = at_end; break;
      case Step::Kind::boundary: passes = boundary; break;
      case Step::Kind::inside: passes = !boundary && !in_character; break;
    }
    if (passes) stack_.push_back(step.next);
  }
  return false;
}

std::uint32_t Regex::advance(std::uint32_t from, unsigned symbol) {
  constexpr std::size_t kMaxHeld = 1 << 20;
  if (close(states_[from], symbol)) return states_[from].next[symbol] = kMatched;
  if (symbol == sample_.size()) return states_[from].next[symbol] = from;
  const unsigned byte = sample_[symbol];
  std::vector<std::uint32_t> steps;
  for (const std::uint32_t at : closed_) {
    const Step& step = program_[at];
    if (byte >= step.first && byte <= step.last) steps.push_back(step.next);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  const Before before = is_word(byte) ? Before::word : Before::other;
  if (states_.size() >= kMaxStates || held_ > kMaxHeld) {
    forget();
    return state_of(before, std::move(steps));
  }
  const std::uint32_t to = state_of(before, std::move(steps));
  return states_[from].next[symbol] = to;
}

bool Regex::feed(std::string_view bytes) {
  if (now_ == kMatched) return true;
  for (const char c : bytes) {
    const unsigned symbol = class_of_[static_cast<unsigned char>(c)];
    std::uint32_t next = states_[now_].next[symbol];
    if (next == kUnknown) next = advance(now_, symbol);
    now_ = next;
    if (next == kMatched) return true;
  }
  return false;
}

bool Regex::finish() {
  if (now_ == kMatched) return true;
  const auto end = static_cast<unsigned>(sample_.size());
  const std::uint32_t known = states_[now_].next[end];
  return (known != kUnknown ? known : advance(now_, end)) == kMatched;
}

}  // namespace tb::match
