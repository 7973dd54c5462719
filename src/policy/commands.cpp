// SPDX-License-Identifier: Apache-2.0
// Walker: one command word, and who looks at its arguments.
#include <array>

#include "policy/walker.h"

namespace tb::policy {
namespace {

constexpr int kMaxLaunches = 20;
constexpr std::string_view kProgramDirectories[] = {"/bin/", "/usr/bin/", "/usr/local/bin/"};

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The program that a path in a usual place stands for; empty elsewhere.
std::string program_of(const std::string& path) {
  const std::string name = base_name(path);
  for (const std::string_view directory : kProgramDirectories) {
    if (path == std::string(directory) + name) return name;
  }
  return {};
}

std::string shown(const Word& word) {
  std::string text = word.value;
  for (const Expansion& expansion : word.expansions) {
    if (expansion.param) {
      text += "$" + expansion.param->name;
    } else {
      text += expansion.arith ? "$((...))" : "$(...)";
    }
    if (text.size() > 60) break;
  }
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

}  // namespace

void Walker::not_allowed(std::size_t at, const std::string& name) {
  if (refusal_ && refusal_->at.offset <= at) return;  // Not worth the long text.
  refuse(at, "Command '" + name + "' not in whitelist. Allowed: " + rules_.allowed_text);
}

void Walker::run(Words words, const Context& context, Lookup lookup,
                 const std::vector<Assignment>* declared) {
  static const std::vector<Assignment> kNone;
  if (words.empty()) return;
  const Word& word = words[0];
  if (!word.is_static() && !(word.glob && word.value == "[")) {
    return unresolved(word.at, "Command word can't be known before it runs: " + shown(word) + " (" +
                                   rules_.name + " policy); write the program's name directly");
  }
  const std::string& name = word.value;
  words_.push_back(name);
  if (name.find('/') != std::string::npos) return run_path(word, words, context);
  check_name(word, name, context, lookup);
  // If a function has that name, these are its positional parameters.
  for (const Word& argument : words.subspan(1)) {
    facts_.assign(name + "@", value_of(argument, context));
  }
  if (launches_ >= kMaxLaunches) return refuse(word.at, "Too many commands that start commands");
  ++launches_;
  dispatch(name, words, context, declared != nullptr ? declared : &kNone);
  --launches_;
}

// In any case of letters, as the clients' users know it: RM is no program, but meant as one.
bool Walker::refuse_forbidden(std::size_t at, const std::string& name) {
  std::string word;
  for (const char c : name) word += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (!rules_.forbidden.contains(word)) return false;
  const std::string pattern = "\\b" + word + "\\b";
  refuse(at, "Command contains forbidden pattern: " + pattern, pattern);
  return true;
}

void Walker::run_path(const Word& word, Words words, const Context& context) {
  const std::string base = base_name(word.value);
  if (refuse_forbidden(word.at, base)) return;
  if (!rules_.commands) {
    dispatch(base, words, context, nullptr);
    return;
  }
  const std::string program = program_of(word.value);
  if (program.empty() && !rules_.refuse_unresolved) return;  // ./a.out where that is fine.
  if (program.empty() || !rules_.commands->contains(program)) {
    return not_allowed(word.at, word.value);
  }
  dispatch(program, words, context, nullptr);
}

void Walker::check_name(const Word& word, const std::string& name, const Context& context,
                        Lookup lookup) {
  if (refuse_forbidden(word.at, name)) return;
  if (!rules_.commands) return;
  const bool program = rules_.commands->contains(name);
  const bool builtin = rules_.builtins.contains(name);
  if (program || (builtin && lookup != Lookup::programs)) return;
  if (lookup == Lookup::shell) {
    calls_.push_back({word.at, name, context.function, line_});
    return;
  }
  not_allowed(word.at, name);
}

void Walker::set_variable(std::size_t at, const std::string& name, const Value& value) {
  facts_.assign(name, value);
  if (is_dangerous_name(name)) {
    unresolved(at, "Variable " + name +
                       " changes how commands are found or run, and must not be set (" +
                       rules_.name + " policy); leave it as it is");
  }
  if (is_integer_name(name)) integers_.insert(name);
  // In some other character sets a byte of a letter looks like a backslash to the shell.
  if (name == "LANG" || name == "LANGUAGE" || name.starts_with("LC_")) {
    if (!value.tame) {
      unresolved(at, "Variable " + name + " must be plain text (" + rules_.name + " policy)");
    }
    for (const std::string& source : value.from) need(at, source, Fit::tame);
  }
}

void Walker::set_variable(const Word& word, const Value& value) {
  need_variable_name(word);
  const std::string name = word.value.substr(0, word.value.find('['));
  if (is_name(name)) set_variable(word.at, name, value);
}

// Commands that run what their arguments say, or set variables. False for all others.
bool Walker::dispatch(const std::string& name, Words words, const Context& context,
                      const std::vector<Assignment>* declared) {
  using Simple = void (Walker::*)(Words);
  using Contextual = void (Walker::*)(Words, const Context&);
  static constexpr std::pair<std::string_view, Simple> kSimple[] = {
      {"shopt", &Walker::run_shopt}, {"unset", &Walker::run_unset},
      {"jobs", &Walker::run_jobs},   {"getopts", &Walker::run_getopts},
      {"awk", &Walker::run_awk},     {"gawk", &Walker::run_awk},
      {"mawk", &Walker::run_awk},    {"sed", &Walker::run_sed},
      {"sort", &Walker::run_sort}};
  static constexpr std::pair<std::string_view, Contextual> kContextual[] = {
      {"eval", &Walker::run_eval},       {"exec", &Walker::run_exec},
      {"command", &Walker::run_command}, {"trap", &Walker::run_trap},
      {"set", &Walker::run_set},         {"test", &Walker::run_test},
      {"[", &Walker::run_test},          {"printf", &Walker::run_printf},
      {"mapfile", &Walker::run_mapfile}, {"readarray", &Walker::run_mapfile},
      {"wait", &Walker::run_wait},       {"let", &Walker::run_let},
      {"read", &Walker::run_read},       {"find", &Walker::run_find},
      {"bash", &Walker::run_shell},      {"sh", &Walker::run_shell},
      {"dash", &Walker::run_shell},      {"rbash", &Walker::run_shell},
      {"ksh", &Walker::run_shell},       {"zsh", &Walker::run_shell}};
  if (name == "builtin") {
    run(words.subspan(1), context, Lookup::builtins, declared);
    return true;
  }
  if (is_assignment_builtin(name)) {
    run_declare(words, context, declared);
    return true;
  }
  for (const auto& [builtin, handler] : kSimple) {
    if (name == builtin) return (this->*handler)(words), true;
  }
  for (const auto& [builtin, handler] : kContextual) {
    if (name == builtin) return (this->*handler)(words, context), true;
  }
  return run_launcher(name, words, context);
}

}  // namespace tb::policy
