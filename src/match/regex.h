// SPDX-License-Identifier: Apache-2.0
// Regular expressions that take time in proportion to the text, whatever they are: an automaton
// that is built while it runs, in bounded memory, and never goes back. The syntax is RE2's without
// Unicode's tables: . [a-z] [^a-z] [[:alpha:]] \d \w \s \D \W \S \b \B ^ $ ( ) (?: ) (?P<name> ) |
// * + ? {n} {n,} {n,m}, \n \t \xhh \x{hhhh}, and (?i) in front. References back and looking around
// have no automaton: they are refused. A text is one line. No exceptions: the guest includes this.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "match/characters.h"

namespace tb::match {

struct RegexOptions {
  bool ignore_case = false;  // of ASCII letters
  bool literal = false;      // the pattern means itself
};

class Regex {
 public:
  static constexpr std::size_t kMaxPattern = 4096;
  static constexpr std::size_t kMaxSteps = 8000;   // of the program
  static constexpr int kMaxRepeat = 1000;          // in {n,m}
  static constexpr std::size_t kMaxStates = 4000;  // of the automaton; then it begins anew

  // One step of the program: a byte of a range, a fork, a condition, the end.
  struct Step {
    enum class Kind : std::uint8_t { bytes, fork, jump, begin, end, boundary, inside, match };
    Kind kind = Kind::match;
    std::uint8_t first = 0;
    std::uint8_t last = 0;
    std::uint32_t next = 0;
    std::uint32_t other = 0;  // of a fork
  };

  // False: `error` says what is wrong with the pattern.
  static bool compile(std::string_view pattern, RegexOptions options, Regex& to,
                      std::string& error);

  // The next line begins.
  void restart() { now_ = start_; }
  // More of the line. True: it matches, whatever comes.
  bool feed(std::string_view bytes);
  // The line ends here; does it match?
  bool finish();

  bool matches(std::string_view line) { return restart(), feed(line) || finish(); }

  // Bytes of a line.
  struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  // The first match at `from` or later that is not empty, and of those that begin there the
  // longest. False: there is none.
  bool find(std::string_view line, std::size_t from, Span& span);

 private:
  static constexpr std::uint32_t kUnknown = 0xffffffff;
  static constexpr std::uint32_t kMatched = 0xfffffffe;
  enum class Before : std::uint8_t { nothing, word, other };  // the byte before
  struct State {
    Before before;
    std::vector<std::uint32_t> steps;  // sorted; conditions are not yet decided
    std::vector<std::uint32_t> next;   // by class of byte; the last one is the end
  };

  void find_classes();
  void forget();
  std::uint32_t state_of(Before before, std::vector<std::uint32_t> steps);
  std::uint32_t advance(std::uint32_t from, unsigned symbol);
  bool close(const State& from, unsigned symbol);

  std::vector<Step> program_;
  std::array<std::uint16_t, 256> class_of_{};
  std::vector<std::uint8_t> sample_;  // a byte of each class
  std::vector<State> states_;
  std::map<std::pair<Before, std::vector<std::uint32_t>>, std::uint32_t> known_;
  std::size_t held_ = 0;  // numbers in the states
  std::uint32_t start_ = 0;
  std::uint32_t now_ = 0;
  // What one step of the automaton works with.
  std::vector<std::uint32_t> stack_;
  std::vector<std::uint32_t> closed_;
  std::vector<std::uint32_t> mark_;
  std::uint32_t round_ = 0;
};

}  // namespace tb::match
