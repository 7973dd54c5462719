// SPDX-License-Identifier: Apache-2.0
#include "match/glob.h"

#include <algorithm>

namespace tb::match {
namespace {

// The end of the group that begins at `open`, and the commas of its own level; 0: it has no end.
std::size_t group_end(std::string_view text, std::size_t open, std::vector<std::size_t>& commas) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == ',' && depth == 1) {
      commas.push_back(i);
    } else if (text[i] == '}' && --depth == 0) {
      return i;
    }
  }
  return 0;
}

std::size_t find_plain(std::string_view text, char wanted) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == wanted) {
      return i;
    }
  }
  return std::string_view::npos;
}

}  // namespace

// One group at a time, the first one; what comes out goes in again until no group is left.
bool Glob::expand(std::string_view pattern, std::vector<std::string>& to, std::string& error) {
  std::vector<std::string> open{std::string{pattern}};
  while (!open.empty()) {
    const std::string text = std::move(open.back());
    open.pop_back();
    const std::size_t brace = find_plain(text, '{');
    if (brace == std::string::npos) {
      to.push_back(text);
    } else {
      std::vector<std::size_t> commas;
      const std::size_t end = group_end(text, brace, commas);
      if (end == 0) return error = "a { without its }", false;
      commas.push_back(end);
      std::size_t start = brace + 1;
      for (const std::size_t comma : commas) {
        std::string one = text.substr(0, brace);
        one.append(text, start, comma - start).append(text, end + 1);
        start = comma + 1;
        open.push_back(std::move(one));
      }
    }
    if (open.size() + to.size() > kMaxAlternatives) {
      return error = "braces that make more than 128 patterns", false;
    }
  }
  return true;
}

bool Glob::compile_set(std::string_view text, std::size_t& at, Token& to, std::string& error) {
  to.kind = Token::Kind::set;
  if (at < text.size() && (text[at] == '!' || text[at] == '^')) {
    to.negated = true;
    ++at;
  }
  bool first = true;
  while (at < text.size() && (text[at] != ']' || first)) {
    first = false;
    if (text[at] == '\\' && at + 1 < text.size()) ++at;
    CharacterRange range;
    range.first = range.last = next_character(text, at);
    if (at + 1 < text.size() && text[at] == '-' && text[at + 1] != ']') {
      ++at;
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      range.last = next_character(text, at);
    }
    if (range.last < range.first) return error = "a range in [] that ends before it begins", false;
    to.ranges.push_back(range);
  }
  if (at >= text.size()) return error = "a [ without its ]", false;
  ++at;
  return true;
}

bool Glob::compile_part(std::string_view text, Part& to, std::string& error) {
  if (text == "**") return to.any_depth = true, true;
  std::size_t at = 0;
  while (at < text.size()) {
    Token token;
    if (text[at] == '*') {
      token.kind = Token::Kind::star;
      while (at < text.size() && text[at] == '*') ++at;
    } else if (text[at] == '?') {
      token.kind = Token::Kind::any;
      ++at;
    } else if (text[at] == '[') {
      ++at;
      if (!compile_set(text, at, token, error)) return false;
    } else {
      if (text[at] == '\\' && ++at == text.size()) return error = "a \\ at the end", false;
      token.character = next_character(text, at);
    }
    to.tokens.push_back(std::move(token));
  }
  return true;
}

bool Glob::compile_alternative(std::string_view pattern, Alternative& to, std::string& error) {
  while (!pattern.empty()) {
    const std::size_t slash = std::min(find_plain(pattern, '/'), pattern.size());
    const std::string_view text = pattern.substr(0, slash);
    pattern.remove_prefix(std::min(slash + 1, pattern.size()));
    if (text.empty() || text == ".") continue;
    if (text == "..") return error = "a .. part", false;
    Part part;
    if (!compile_part(text, part, error)) return false;
    if (part.any_depth && !to.empty() && to.back().any_depth) continue;
    to.push_back(std::move(part));
  }
  if (to.empty()) return error = "an empty pattern", false;
  if (to.back().any_depth) {  // all below, but not the directory itself
    Part name;
    name.tokens.push_back({Token::Kind::star});
    to.push_back(std::move(name));
  }
  if (to.size() > kMaxParts) return error = "more than 60 parts", false;
  return true;
}

bool Glob::compile(std::string_view pattern, Glob& to, std::string& error) {
  if (pattern.size() > kMaxPattern) return error = "longer than 4096 bytes", false;
  std::vector<std::string> texts;
  if (!expand(pattern, texts, error)) return false;
  Glob glob;
  for (const std::string& text : texts) {
    Alternative alternative;
    if (!compile_alternative(text, alternative, error)) return false;
    glob.alternatives_.push_back(std::move(alternative));
  }
  glob.has_directories_ = find_plain(pattern, '/') != std::string_view::npos;
  to = std::move(glob);
  return true;
}

bool Glob::fits(const Token& token, char32_t c) {
  switch (token.kind) {
    case Token::Kind::character: return token.character == c;
    case Token::Kind::set: return contains(token.ranges, c) != token.negated;
    default: return true;
  }
}

// A star takes as little as it can; when the rest does not fit, only the last star takes one more:
// what earlier ones could take instead would leave less for it.
bool Glob::part_matches(const Part& part, std::string_view name) {
  std::size_t at = 0;
  std::size_t token = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_at = 0;
  while (at < name.size()) {
    std::size_t next = at;
    const bool more = token < part.tokens.size();
    if (more && part.tokens[token].kind == Token::Kind::star) {
      star = token++;
      star_at = at;
      continue;
    }
    const char32_t c = next_character(name, next);
    if (more && fits(part.tokens[token], c)) {
      at = next;
      ++token;
    } else if (star != std::string_view::npos) {
      next_character(name, star_at);
      at = star_at;
      token = star + 1;
    } else {
      return false;
    }
  }
  while (token < part.tokens.size() && part.tokens[token].kind == Token::Kind::star) ++token;
  return token == part.tokens.size();
}

std::uint64_t Glob::closure(const Alternative& alternative, std::uint64_t set) {
  for (std::size_t i = 0; i < alternative.size(); ++i) {
    if ((set >> i & 1) && alternative[i].any_depth) set |= std::uint64_t{2} << i;
  }
  return set;
}

Glob::State Glob::start() const {
  State state;
  for (const Alternative& alternative : alternatives_) state.push_back(closure(alternative, 1));
  return state;
}

Glob::State Glob::enter(const State& state, std::string_view name) const {
  State next(alternatives_.size());
  for (std::size_t i = 0; i < alternatives_.size(); ++i) {
    const Alternative& alternative = alternatives_[i];
    std::uint64_t set = 0;
    for (std::size_t part = 0; part < alternative.size(); ++part) {
      if (!(state[i] >> part & 1)) continue;
      if (alternative[part].any_depth) {
        set |= std::uint64_t{1} << part;
      } else if (part_matches(alternative[part], name)) {
        set |= std::uint64_t{2} << part;
      }
    }
    next[i] = closure(alternative, set);
  }
  return next;
}

bool Glob::accepts(const State& state) const {
  for (std::size_t i = 0; i < alternatives_.size(); ++i) {
    if (state[i] >> alternatives_[i].size() & 1) return true;
  }
  return false;
}

bool Glob::hopeless(const State& state) const {
  for (std::size_t i = 0; i < alternatives_.size(); ++i) {
    const std::uint64_t to_come = (std::uint64_t{1} << alternatives_[i].size()) - 1;
    if (state[i] & to_come) return false;
  }
  return true;
}

bool Glob::matches(std::string_view path) const {
  State state = start();
  while (!path.empty()) {
    const std::size_t slash = std::min(path.find('/'), path.size());
    state = enter(state, path.substr(0, slash));
    path.remove_prefix(std::min(slash + 1, path.size()));
  }
  return accepts(state);
}

}  // namespace tb::match
