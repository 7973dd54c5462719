// SPDX-License-Identifier: Apache-2.0
#include "policy/facts.h"

#include <algorithm>
#include <iterator>

namespace tb::policy {
namespace {

constexpr std::string_view kDangerous[] = {
    "BASHOPTS",
    "BASH_ALIASES",
    "BASH_ARGV0",
    "BASH_CMDS",
    "BASH_COMPAT",
    "BASH_ENV",
    "BASH_XTRACEFD",
    "CDPATH",
    "ENV",
    "EXECIGNORE",
    "FUNCNEST",
    "GCONV_PATH",
    "GLOBIGNORE",
    "HISTFILE",
    "IFS",
    "INPUTRC",
    "LOCPATH",
    "NLSPATH",
    "PATH",
    "POSIXLY_CORRECT",
    "PROMPT_COMMAND",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "SHELL",
    "SHELLOPTS",
    "TEXTDOMAIN",
    "TEXTDOMAINDIR",
    "BASH_LOADABLES_PATH",
    "PYTHONSTARTUP",
    "PERL5OPT",
    "GETCONF_DIR",
    "HOSTALIASES",
    "RES_OPTIONS",
};
constexpr std::string_view kInteger[] = {"RANDOM",  "SRANDOM", "SECONDS",      "LINENO",
                                         "HISTCMD", "BASHPID", "OPTIND",       "UID",
                                         "EUID",    "PPID",    "EPOCHSECONDS", "BASH_SUBSHELL"};
// Text that the shell itself puts there.
constexpr std::string_view kShellText[] = {
    "_",        "REPLY",    "OPTARG",   "FUNCNAME", "DIRSTACK",  "PWD",      "OLDPWD",   "MAPFILE",
    "HOSTNAME", "GROUPS",   "HOME",     "USER",     "COMPREPLY", "SHELL",    "BASH",     "PATH",
    "LOGNAME",  "HOSTTYPE", "MACHTYPE", "OSTYPE",   "SHELLOPTS", "BASHOPTS", "TERM",     "LANG",
    "LANGUAGE", "TZ",       "TMPDIR",   "IFS",      "PS4",       "MAIL",     "COLORTERM"};
constexpr std::string_view kShellArrays[] = {"DIRSTACK",  "FUNCNAME",   "GROUPS", "MAPFILE",
                                             "COMPREPLY", "PIPESTATUS", "COPROC"};

template <class List>
bool has(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

}  // namespace

bool is_numeric_text(std::string_view text) {
  return text.find_first_not_of("0123456789+-/%., :()<>=\n{}") == std::string_view::npos;
}

bool is_tame_text(std::string_view text) {
  // A pattern may match a file whose name is an option.
  return !text.empty() && std::string_view{"-!;+"}.find(text[0]) == std::string_view::npos &&
         text.find_first_of("%$`*?[(\\ \t\n") == std::string_view::npos;
}

bool is_shell_array(std::string_view name) {
  return name.starts_with("BASH_") || has(kShellArrays, name);
}

bool is_dangerous_name(std::string_view name) {
  return name.starts_with("LD_") || name.starts_with("BASH_FUNC_") || name.starts_with("MALLOC_") ||
         name.starts_with("GLIBC_") || has(kDangerous, name);
}

bool is_integer_name(std::string_view name) { return has(kInteger, name); }

void Facts::assign(const std::string& name, const Value& value) {
  Fact& fact = facts_[name];
  fact.assigned = true;
  fact.numeric = fact.numeric && value.numeric;
  fact.tame = fact.tame && value.tame;
  for (const std::string& source : value.from) facts_[source].into.insert(name);
}

bool Facts::is_numeric(const std::string& name) const {
  const auto found = facts_.find(name);
  if (found != facts_.end() && !found->second.numeric) return false;
  return !has(kShellText, name) && !name.starts_with("LC_") &&
         (!name.starts_with("BASH_") || is_integer_name(name));
}

bool Facts::is_tame(const std::string& name) const {
  const auto found = facts_.find(name);
  if (found != facts_.end() && (found->second.assigned || !found->second.tame)) {
    return found->second.tame;
  }
  // Without a call there are no positional parameters, without a definition no such function.
  return is_integer_name(name) || name.ends_with('@') || name.starts_with("()");
}

void Facts::settle() {
  for (auto& [name, fact] : facts_) {
    fact.numeric = fact.numeric && is_numeric(name);
    fact.tame = is_tame(name);
  }
  spread(&Fact::numeric);
  spread(&Fact::tame);
}

void Facts::spread(bool Fact::* property) {
  std::vector<std::string> bad;
  for (const auto& [name, fact] : facts_) {
    if (!(fact.*property)) bad.push_back(name);
  }
  while (!bad.empty()) {
    const Fact& source = facts_[bad.back()];
    bad.pop_back();
    for (const std::string& name : source.into) {
      Fact& fact = facts_[name];
      if (!(fact.*property)) continue;
      fact.*property = false;
      bad.push_back(name);
    }
  }
}

}  // namespace tb::policy
