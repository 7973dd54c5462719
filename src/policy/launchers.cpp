// SPDX-License-Identifier: Apache-2.0
// Walker: programs that start the command in their arguments, each with its grammar of options.
#include <algorithm>

#include "policy/walker.h"

namespace tb::policy {

struct Walker::Launcher {
  std::string_view name;
  std::string_view flags;       // Short options without a value.
  std::string_view with_value;  // Short options with one.
  std::string_view optional;    // Short options whose value is attached or absent.
  std::string_view long_flags;  // Separated by blanks; "=" at the end: the value may be separate.
  std::size_t operands;         // Before the command: timeout's duration.
};

namespace {

// Each costs a look at all words.
constexpr int kMaxNested = 4;
constexpr std::size_t kMaxReplaced = 20;
constexpr std::string_view kFoundActions[] = {"-exec", "-execdir", "-ok", "-okdir"};
// Actions and tests of find that take one value.
constexpr std::string_view kFoundValues[] = {
    "-name",     "-iname",    "-path",      "-ipath",  "-wholename", "-iwholename", "-regex",
    "-iregex",   "-type",     "-xtype",     "-size",   "-mtime",     "-mmin",       "-atime",
    "-amin",     "-ctime",    "-cmin",      "-newer",  "-anewer",    "-cnewer",     "-maxdepth",
    "-mindepth", "-user",     "-group",     "-uid",    "-gid",       "-perm",       "-links",
    "-inum",     "-samefile", "-lname",     "-ilname", "-printf",    "-fprint",     "-fprint0",
    "-fls",      "-fstype",   "-regextype", "-used",   "-context",   "-files0-from"};

template <class List>
bool has(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool takes_value(const Word& word) { return word.is_static() && has(kFoundValues, word.value); }

// Neither an operator nor the value of one.
bool out_of_place(Words words, std::size_t i) {
  if (words[i].value.find_first_of("-(!),") == 0 || words[i - 1].value.starts_with('-'))
    return false;
  return i < 2 || words[i - 2].value != "-fprintf";
}

// What a launcher fills in later.
Word open_word(std::size_t at) {
  Word word;
  word.at = at;
  word.opaque = true;
  word.splits = true;
  return word;
}

}  // namespace

bool Walker::run_launcher(const std::string& name, Words words, const Context& context) {
  static constexpr Launcher kLaunchers[] = {
      {"env", "i0v", "uC", "",
       "--ignore-environment --null --debug --list-signal-handling --unset= --chdir=", 0},
      {"xargs", "0rtpxo", "adEILnPs", "eil",
       "--null --no-run-if-empty --verbose --interactive --exit --open-tty --arg-file= "
       "--delimiter= --max-args= --max-procs= --max-chars= --process-slot-var=",
       0},
      {"nohup", "", "", "", "", 0},
      {"nice", "0123456789", "n", "", "--adjustment=", 0},
      {"timeout", "v", "ks", "",
       "--preserve-status --foreground --verbose --kill-after= --signal=", 1},
      {"stdbuf", "", "ioe", "", "--input= --output= --error=", 0},
      {"setsid", "cfw", "", "", "--ctty --fork --wait", 0},
      {"time", "pvaqV", "fo", "",
       "--portability --verbose --append --quiet --format= --output=", 0},
      {"ionice", "t", "cn", "", "--ignore --class= --classdata=", 0},
      {"busybox", "", "", "", "", 0},
  };
  for (const Launcher& launcher : kLaunchers) {
    if (launcher.name != name) continue;
    bool known = true;
    std::size_t at = skip_options(launcher, words, known);
    if (!known) {
      unresolved(words[std::min(at, words.size() - 1)].at,
                 "Options of " + name + " can't be told from its command (" + rules_.name +
                     " policy); write them out, and the program's name directly");
      return true;
    }
    at += launcher.operands;
    if (name == "env") {
      run_environment(words, at, context);
    } else if (name == "xargs") {
      run_xargs(words, at, context);
    } else if (at < words.size()) {
      run(words.subspan(at), context, Lookup::programs);
    }
    return true;
  }
  return false;
}

// The index of the first word after the options; `known` false when one is not in the table.
std::size_t Walker::skip_options(const Launcher& launcher, Words words, bool& known) {
  std::size_t i = 1;
  for (; i < words.size(); ++i) {
    const std::string& text = words[i].value;
    if (!words[i].is_static() && (words[i].fixed == 0 || words[i].splits || text[0] == '-')) {
      // It may be an option, or an operand that is one word.
      known = launcher.operands > 0 && !words[i].splits && words[i].fixed > 0 && text[0] != '-';
      if (launcher.operands == 0) known = true;  // It is the command word, and refused as such.
      return i;
    }
    if (text == "-" && launcher.name == "env") continue;
    if (text.size() < 2 || text[0] != '-') return i;
    if (text == "--") return i + 1;
    if (text.starts_with("--")) {
      const std::size_t equals = text.find('=');
      const std::string option = text.substr(0, equals);
      const std::string padded = " " + std::string(launcher.long_flags) + " ";
      const bool valued = padded.find(" " + option + "= ") != std::string::npos;
      known = valued ||
              (equals == std::string::npos && padded.find(" " + option + " ") != std::string::npos);
      if (!known) return i;
      if (valued && equals == std::string::npos) ++i;
      continue;
    }
    for (std::size_t j = 1; j < text.size(); ++j) {
      const char letter = text[j];
      if (launcher.optional.find(letter) != std::string_view::npos) break;
      if (launcher.with_value.find(letter) != std::string_view::npos) {
        if (j + 1 == text.size()) ++i;
        // The value may be anything, but one word.
        if (i < words.size() && words[i].splits) known = false;
        break;
      }
      if (launcher.flags.find(letter) == std::string_view::npos) known = false;
    }
    if (!known) return i;
  }
  return i;
}

void Walker::run_environment(Words words, std::size_t from, const Context& context) {
  for (; from < words.size(); ++from) {
    const Word& word = words[from];
    const std::size_t equals = word.value.find('=');
    // What xargs puts in may begin with -S.
    const bool open = word.splits || word.opaque;
    if (equals == std::string::npos || equals >= word.fixed || open) break;
    const std::string name = word.value.substr(0, equals);
    // What env sets holds for the program alone; only what changes the program matters.
    if (is_dangerous_name(name)) set_variable(word.at, name, {});
  }
  if (from < words.size()) run(words.subspan(from), context, Lookup::programs);
}

void Walker::run_xargs(Words words, std::size_t from, const Context& context) {
  if (from >= words.size()) return;
  // Which option is one, and which the value of another, does not matter: all that may be replaced.
  std::vector<std::string> replaced;
  for (std::size_t i = 1; i < from; ++i) {
    const std::string& option = words[i].value;
    if (!option.starts_with('-') || option.starts_with("--")) continue;
    if (const std::size_t letter = option.find('i'); letter != std::string::npos) {
      replaced.push_back(letter + 1 < option.size() ? option.substr(letter + 1) : "{}");
    }
    if (const std::size_t letter = option.find('I'); letter != std::string::npos) {
      const bool attached = letter + 1 < option.size();
      replaced.push_back(attached       ? option.substr(letter + 1)
                         : i + 1 < from ? words[i + 1].value
                                        : "");
    }
  }
  if (replaced.size() > kMaxReplaced) return refuse(words[0].at, "Too many options of xargs");
  std::vector<Word> command(words.begin() + static_cast<std::ptrdiff_t>(from), words.end());
  for (Word& word : command) {
    for (const std::string& text : replaced) {
      if (!text.empty() && word.value.find(text) != std::string::npos) word.opaque = true;
    }
  }
  command.push_back(open_word(command.back().at));
  run(command, context, Lookup::programs);
}

// bash -c TEXT. A script file or standard input can't be looked into.
void Walker::run_shell(Words words, const Context& context) {
  bool text = false;
  std::size_t i = 1;
  for (; i < words.size() && words[i].is_static(); ++i) {
    const std::string& option = words[i].value;
    if (option.size() < 2 || (option[0] != '-' && option[0] != '+') || option == "--") break;
    if (option == "--version" || option == "--help") return;
    if (option.starts_with("--")) {
      if (option == "--rcfile" || option == "--init-file") ++i;
      continue;
    }
    text = text || option.find('c') != std::string::npos;
    if (option.find_first_of("oO") != std::string::npos) ++i;
  }
  if (i < words.size() && words[i].value == "--") ++i;
  if (!text || i >= words.size() || !words[i].is_static()) {
    return unresolved(words[0].at, "What this shell runs can't be known before it runs (" +
                                       rules_.name + " policy); write the commands directly");
  }
  Context inside = context;
  inside.straight = false;
  walk_text(words[i].value, words[i].at, inside);
}

void Walker::run_find(Words words, const Context& context) {
  std::size_t end = 0;      // Of the command of the last -exec.
  bool open = false;        // A word of it may be the `;` that ends it.
  int nested = 0;           // Commands that would then be there.
  bool expression = false;  // Paths may not stand any more.
  for (std::size_t i = 1; i < words.size(); ++i) {
    const Word& word = words[i];
    if (!word.is_static()) {
      const bool known = i < end ? !open : i > 1 && takes_value(words[i - 1]);
      find_open_word(words, i, known, context);
      open = open || word.fixed == 0 || word.opaque;
      continue;
    }
    if (has(kFoundActions, word.value) && (i >= end || open)) {
      if (i < end && ++nested > kMaxNested) return refuse(word.at, "Too many commands of find");
      for (end = i + 1; end < words.size(); ++end) {
        const bool last = words[end].value == "+" && words[end - 1].value == "{}";
        if (words[end].value == ";" || last) break;
      }
      run_found(words.subspan(i + 1, end - i - 1), context);
      open = false;
    } else if (word.value == "-D" || (expression && i > end && out_of_place(words, i))) {
      unresolved(word.at, "What find makes of this word can't be known before it runs (" +
                              rules_.name + " policy); write paths first, and leave out -D");
    }
    expression = expression || word.value.find_first_of("-(!") == 0;
  }
}

// `known`: it stands where it can only be a value, or an argument of -exec.
void Walker::find_open_word(Words words, std::size_t i, bool known, const Context& context) {
  const Word& word = words[i];
  if (word.splits) return need_single(word, context);
  if (known) return;
  const std::string_view fixed =
      std::string_view{word.value}.substr(0, word.opaque ? 0 : word.fixed);
  const bool action = std::any_of(std::begin(kFoundActions), std::end(kFoundActions),
                                  [&](std::string_view name) { return name.starts_with(fixed); });
  if (!action) return;
  const bool path = fixed.empty() &&
                    (i + 1 == words.size() ||
                     (words[i + 1].is_static() && words[i + 1].value.find_first_of("-(!)") == 0));
  if (path) return;
  unresolved(word.at, "An argument of find may become -exec (" + rules_.name +
                          " policy); give only one directory in a variable");
}

void Walker::run_found(Words words, const Context& context) {
  std::vector<Word> command(words.begin(), words.end());
  for (Word& word : command) {
    if (word.value.find("{}") != std::string::npos) word.opaque = true;
  }
  if (!command.empty()) run(command, context, Lookup::programs);
}

}  // namespace tb::policy
