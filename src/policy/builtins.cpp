// SPDX-License-Identifier: Apache-2.0
// Walker: builtins that run text or change how text is read.
#include <algorithm>

#include "policy/walker.h"

namespace tb::policy {
namespace {

std::string sentence(const std::string& what, const Rules& rules, const std::string& instead) {
  return what + " (" + rules.name + " policy); " + instead;
}

constexpr std::string_view kComparisons[] = {"=",   "==",  "!=",  "<",   ">",   "-eq", "-ne",
                                             "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"};

bool is_comparison(const Word& word) {
  return word.is_static() && std::find(std::begin(kComparisons), std::end(kComparisons),
                                       word.value) != std::end(kComparisons);
}

bool is_connective(const Word& word) {
  return word.is_static() && (word.value == "-a" || word.value == "-o");
}

bool is_unary(const Word& word) {
  return word.is_static() && word.value.size() == 2 && word.value[0] == '-' && !is_connective(word);
}

bool is_option(const Word& word) { return word.value.size() > 1 && word.value[0] == '-'; }

}  // namespace

void Walker::run_eval(Words words, const Context& context) {
  std::string text;
  for (const Word& word : words.subspan(1)) {
    if (!word.is_static()) {
      return unresolved(word.at, sentence("Text for eval can't be known before it runs", rules_,
                                          "write the command directly"));
    }
    text += (text.empty() ? "" : " ") + word.value;
  }
  if (text.starts_with("-- ")) text.erase(0, 3);
  if (words.size() > 1) walk_text(text, words[1].at, context);
}

void Walker::run_exec(Words words, const Context& context) {
  std::size_t i = 1;
  for (; i < words.size() && words[i].is_static() && is_option(words[i]); ++i) {
    if (words[i].value == "--") {
      ++i;
      break;
    }
    const std::size_t name = words[i].value.find('a');  // -a NAME, or -aNAME
    if (name + 1 != words[i].value.size()) continue;
    if (++i < words.size() && words[i].splits) {
      return unresolved(words[i].at, sentence("Name for exec -a may become several words", rules_,
                                              "put it in double quotes"));
    }
  }
  if (i < words.size()) run(words.subspan(i), context, Lookup::programs);
}

void Walker::run_command(Words words, const Context& context) {
  std::size_t i = 1;
  for (; i < words.size() && words[i].is_static() && is_option(words[i]); ++i) {
    if (words[i].value == "--") {
      ++i;
      break;
    }
    if (words[i].value.find_first_of("vV") != std::string::npos) return;  // Only asks.
  }
  if (i >= words.size()) return;
  // Builtins and programs, no functions.
  const std::string& name = words[i].value;
  run(words.subspan(i), context,
      words[i].is_static() && rules_.builtins.contains(name) ? Lookup::builtins : Lookup::programs);
}

void Walker::run_trap(Words words, const Context& context) {
  std::size_t i = 1;
  if (i < words.size() && words[i].is_static() && words[i].value == "--") ++i;
  if (i >= words.size()) return;
  const Word& action = words[i];
  if (!action.is_static()) {
    return unresolved(action.at, sentence("Text for trap can't be known before it runs", rules_,
                                          "write the command in single quotes"));
  }
  if (action.value == "-l" || action.value == "-p" || action.value == "-" ||
      i + 1 == words.size()) {
    return;
  }
  // These also run inside of substitutions, and what they print is part of the result.
  for (const Word& signal : words.subspan(i + 1)) {
    const bool apart = signal.is_static() && (signal.value == "EXIT" || signal.value == "INT" ||
                                              signal.value == "TERM" || signal.value == "HUP");
    if (!apart) facts_.assign("()trap", {});
  }
  walk_text(action.value, action.at, context);
}

// jobs -x COMMAND runs it.
void Walker::run_jobs(Words words) {
  for (const Word& word : words.subspan(1)) {
    if (word.is_static() && word.value.find('x') == std::string::npos) continue;
    unresolved(word.at, sentence("jobs -x would run a command", rules_, "write it directly"));
  }
}

void Walker::run_set(Words words, const Context& context) {
  static constexpr std::string_view kLetters = "abefhmnuvxBCEPTt";
  static constexpr std::string_view kNames[] = {
      "allexport", "braceexpand", "errexit",  "errtrace", "functrace", "hashall",
      "monitor",   "noclobber",   "noexec",   "noglob",   "nolog",     "notify",
      "nounset",   "physical",    "pipefail", "verbose",  "xtrace"};
  std::size_t i = 1;
  for (; i < words.size(); ++i) {
    if (!words[i].is_static()) {
      need_single(words[i], context);
      break;
    }
    const std::string& option = words[i].value;
    if (option == "--" || option == "-") {
      ++i;
      break;
    }
    if (option.size() < 2 || (option[0] != '-' && option[0] != '+')) break;
    const bool named = option.find('o') != std::string::npos;
    const std::string letters = option.substr(1, option.find('o') - 1);
    bool known = letters.find_first_not_of(kLetters) == std::string::npos;
    known = known && (!named || option.ends_with('o'));
    if (named && i + 1 < words.size()) {
      ++i;
      known = known && words[i].is_static() &&
              std::find(std::begin(kNames), std::end(kNames), words[i].value) != std::end(kNames);
    }
    if (!known) {
      unresolved(words[i].at,
                 sentence("Option of set changes how commands are read", rules_, "leave it out"));
    }
  }
  for (; i < words.size(); ++i) {
    facts_.assign(context.function + "@", value_of(words[i], context));
  }
}

void Walker::run_shopt(Words words) {
  static constexpr std::string_view kNames[] = {
      "dotglob",  "failglob", "globstar",     "inherit_errexit", "lastpipe", "nocaseglob",
      "nullglob", "xpg_echo", "globskipdots", "checkwinsize",    "extglob",  "nocasematch"};
  for (const Word& word : words.subspan(1)) {
    const std::string& text = word.value;
    const bool known = word.is_static() &&
                       (text == "-s" || text == "-u" || text == "-q" || text == "-p" ||
                        std::find(std::begin(kNames), std::end(kNames), text) != std::end(kNames));
    if (!known) {
      unresolved(word.at,
                 sentence("Option of shopt changes how commands are read", rules_, "leave it out"));
    }
  }
}

// test and [: -v evaluates its operand, so nothing unknown may stand where that operator could.
void Walker::run_test(Words words, const Context& context) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const Word& word = words[i];
    if (word.is_static()) {
      if ((word.value == "-v" || word.value == "-R") && i + 1 < words.size() &&
          words[i + 1].value != "]") {
        need_variable_name(words[i + 1]);
      }
      continue;
    }
    if (word.splits) {
      need_single(word, context);
      continue;
    }
    if (i + 1 >= words.size() || (word.fixed > 0 && word.value[0] != '-')) continue;
    const Word& after = words[i + 1];
    const bool closed = is_comparison(after) || is_connective(after) ||
                        (after.is_static() && (after.value == "]" || after.value == ")"));
    const bool operand = i > 1 && (is_comparison(words[i - 1]) || is_unary(words[i - 1]));
    if (!closed && !operand) {
      unresolved(word.at, sentence("Operator of test can't be known before it runs", rules_,
                                   "write the operator directly"));
    }
  }
}

}  // namespace tb::policy
