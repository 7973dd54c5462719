// SPDX-License-Identifier: Apache-2.0
// Patterns of paths: * and ? within a name, ** for any number of directories, [a-z], [!a-z],
// {one,two}, and \ before a character that means itself. Names that begin with a dot are like all
// others. Matching takes time in proportion to pattern times path, whatever they are. No
// exceptions: the guest includes this too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "match/characters.h"

namespace tb::match {

class Glob {
 public:
  static constexpr std::size_t kMaxPattern = 4096;
  static constexpr std::size_t kMaxAlternatives = 128;  // that braces make
  static constexpr std::size_t kMaxParts = 60;          // between slashes

  // False: `error` says what is wrong with the pattern.
  static bool compile(std::string_view pattern, Glob& to, std::string& error);

  // Where a walk is in the pattern: for each alternative a set of parts that may come next.
  using State = std::vector<std::uint64_t>;
  State start() const;
  State enter(const State& state, std::string_view name) const;
  bool accepts(const State& state) const;
  // Nothing below can match any more.
  bool hopeless(const State& state) const;

  bool matches(std::string_view path) const;
  // The pattern has a slash: it is about paths, not about names at any depth.
  bool has_directories() const { return has_directories_; }

 private:
  struct Token {
    enum class Kind { character, any, star, set } kind = Kind::character;
    char32_t character = 0;
    bool negated = false;
    std::vector<CharacterRange> ranges = {};
  };
  struct Part {
    bool any_depth = false;  // **
    std::vector<Token> tokens = {};
  };
  using Alternative = std::vector<Part>;

  static bool expand(std::string_view pattern, std::vector<std::string>& to, std::string& error);
  static bool compile_alternative(std::string_view pattern, Alternative& to, std::string& error);
  static bool compile_part(std::string_view text, Part& to, std::string& error);
  static bool compile_set(std::string_view text, std::size_t& at, Token& to, std::string& error);
  static bool fits(const Token& token, char32_t c);
  static bool part_matches(const Part& part, std::string_view name);
  static std::uint64_t closure(const Alternative& alternative, std::uint64_t set);

  std::vector<Alternative> alternatives_;
  bool has_directories_ = false;
};

}  // namespace tb::match
