// SPDX-License-Identifier: Apache-2.0
// Walker: builtins that set variables.
#include "policy/walker.h"

namespace tb::policy {
namespace {

struct Options {
  std::string_view with_value;
  std::size_t end = 1;            // The first operand.
  const Word* unknown = nullptr;  // An option that can't be told.
  std::vector<const Word*> open;  // Values that may become several words or none.
};

// Steps over short options; `each` gets every letter with its value, or with none.
template <class Each>
Options read_options(Words words, std::string_view with_value, Each each) {
  Options options{with_value, 1, nullptr, {}};
  for (std::size_t& i = options.end; i < words.size(); ++i) {
    const Word& word = words[i];
    if (word.fixed == 0 && !word.is_static()) {
      options.unknown = &word;
      return options;
    }
    if (word.value.size() < 2 || word.value[0] != '-') return options;
    if (word.value == "--") {
      ++i;
      return options;
    }
    for (std::size_t j = 1; j < word.value.size(); ++j) {
      const char letter = word.value[j];
      if (with_value.find(letter) == std::string_view::npos) {
        each(letter, static_cast<const Word*>(nullptr), std::string{});
        continue;
      }
      const bool attached = j + 1 < word.value.size() || !word.expansions.empty();
      if (!attached) ++i;
      const Word* value = attached ? &word : i < words.size() ? &words[i] : nullptr;
      if (value != nullptr && value->splits) options.open.push_back(value);
      each(letter, value, attached ? word.value.substr(j + 1) : std::string{});
      break;
    }
  }
  return options;
}

// The value of an option as a word of its own.
Word option_word(const Word* value, const std::string& attached) {
  Word word = value != nullptr ? *value : Word{};
  if (!attached.empty()) word.value = attached;
  return word;
}

}  // namespace

void Walker::run_declare(Words words, const Context& context,
                         const std::vector<Assignment>* declared) {
  const std::string& name = words[0].value;
  const bool exports = name == "export" || name == "readonly";
  bool array = false, integer = false, associative = false, plain = name != "local" && !exports;
  bool prints = false;
  std::size_t i = 1;
  for (; i < words.size(); ++i) {
    const Word& word = words[i];
    if (word.value.size() < 2 || (word.value[0] != '-' && word.value[0] != '+')) break;
    if (!word.is_static() || (!exports && word.value.find('n') != std::string::npos)) {
      unresolved(word.at, "A variable that stands for another can't be followed (" + rules_.name +
                              " policy); use the variable itself");
    }
    if (word.value == "--") continue;
    array = array || word.value.find('a') != std::string::npos;
    associative = associative || word.value.find('A') != std::string::npos;
    integer = integer || word.value.find('i') != std::string::npos;
    prints = prints || word.value.find('p') != std::string::npos;
    plain = plain && word.value.find_first_not_of("-Agx") == std::string::npos;
  }
  const bool certain = associative && plain && context.straight && context.function.empty();
  if (declared != nullptr && !declared->empty()) ++steps_;  // A value may fail.
  for (const Word& word : words.subspan(i)) {
    declare_word(word, array || associative, integer, context);
    declare_associative(word.value, word.at, certain && word.is_static());
    if (!exports && !prints && is_dangerous_name(word.value)) set_variable(word.at, word.value, {});
    if (array || associative) add_array(word.value);
  }
  if (declared == nullptr) return;
  for (const Assignment& assignment : *declared) {
    declare_associative(assignment.name, assignment.at, certain);
    walk(assignment, context, certain);
    if (integer) integers_.insert(assignment.name);
    const Word& value = assignment.value;
    const bool text = value.is_static() && !value.value.starts_with('(');
    if (array || associative) add_array(assignment.name);
    if (!assignment.compound && !text && (value.fixed == 0 || value.value[0] == '(')) {
      array_values_.push_back({assignment.at, assignment.name, {}});
    }
  }
}

// A name, or NAME=VALUE in a form that the parser does not take for an assignment.
void Walker::declare_word(const Word& word, bool array, bool integer, const Context& context) {
  const std::size_t equals = word.value.find('=');
  if (equals == std::string::npos) {
    need_variable_name(word);
    if (integer) integers_.insert(word.value);
    return;
  }
  std::string name = word.value.substr(0, equals);
  if (name.ends_with('+')) name.pop_back();
  if (equals >= word.fixed || !is_name(name) || word.brace || array ||
      (equals + 1 < word.value.size() && word.value[equals + 1] == '(')) {
    return unresolved(word.at, "What this declares can't be known before it runs (" + rules_.name +
                                   " policy); write name=value without quotes around the name");
  }
  Word value = word;
  value.value = word.value.substr(equals + 1);
  set_variable(word.at, name, value_of(value, context));
  if (integer) integers_.insert(name);
  if (value.value.empty() || word.fixed == equals + 1) array_values_.push_back({word.at, name, {}});
}

void Walker::add_array(const std::string& name) {
  arrays_.insert(name);
  // An indexed array stays one, whatever is declared later.
  if (!associative_.contains(name)) not_associative_.insert(name);
}

void Walker::declare_associative(const std::string& name, std::size_t at, bool certain) {
  if (certain && !is_shell_array(name)) {
    associative_.try_emplace(name, Done{at, steps_ == 0 ? 0 : line_});
  } else {
    not_associative_.insert(name);
  }
}

void Walker::run_unset(Words words) {
  for (const Word& word : words.subspan(1)) {
    if (word.is_static() && (word.value == "-f" || word.value == "-v")) continue;
    need_variable_name(word);
    // Without a PATH the shell looks into the current directory.
    if (is_dangerous_name(word.value)) set_variable(word.at, word.value, {});
    unset_.push_back({word.at, word.value, {}});
    not_associative_.insert(word.value);
  }
}

void Walker::run_read(Words words, const Context& context) {
  const Options options = read_options(
      words, "adinNptu", [&](char letter, const Word* value, const std::string& attached) {
        if (letter != 'a' || value == nullptr) return;
        const Word array = option_word(value, attached);
        set_variable(array, {});
        add_array(array.value);
      });
  for (const Word* value : options.open) need_single(*value, context);
  if (options.unknown != nullptr) return need_variable_name(*options.unknown);
  facts_.assign("REPLY", {});
  for (std::size_t i = options.end; i < words.size(); ++i) set_variable(words[i], {});
}

void Walker::run_printf(Words words, const Context& context) {
  bool sets = false;
  const Options options =
      read_options(words, "v", [&](char letter, const Word* value, const std::string& attached) {
        sets = letter == 'v';
        if (sets && value != nullptr) set_variable(option_word(value, attached), {});
      });
  if (options.end >= words.size()) return;
  const Word& format = words[options.end];
  if (format.is_static() || format.glob) {
    // %n stores into the variable that an argument names.
    const std::string& text = format.value;
    for (std::size_t i = text.find('%'); i != std::string::npos; i = text.find('%', i + 1)) {
      const std::size_t end = text.find_first_not_of("-+ #0'123456789.*hlLjzt", i + 1);
      if (end == std::string::npos) break;
      if (text[end] == 'n') {
        unresolved(format.at, "Conversion %n of printf sets a variable (" + rules_.name +
                                  " policy); leave it out");
      }
      i = end;
    }
    if (format.is_static()) return;
  }
  const bool alone = options.end + 1 == words.size() && !format.splits;
  if (alone && !format.value.empty()) return;
  if (options.end > 1 && alone) return;
  need_single(format, context);
}

void Walker::run_mapfile(Words words, const Context& context) {
  const Options options = read_options(
      words, "dnOsuCc", [&](char letter, const Word* value, const std::string& attached) {
        if (letter != 'C' || value == nullptr) return;
        const Word callback = option_word(value, attached);
        if (!callback.is_static()) {
          return unresolved(callback.at, "Command of mapfile -C can't be known before it runs (" +
                                             rules_.name + " policy); write it directly");
        }
        // Bash adds the index and the line.
        walk_text(callback.value + " 0 \"$_\"", callback.at, context);
      });
  for (const Word* value : options.open) need_single(*value, context);
  if (options.unknown != nullptr) return need_variable_name(*options.unknown);
  facts_.assign("MAPFILE", {});
  for (std::size_t i = options.end; i < words.size(); ++i) {
    set_variable(words[i], {});
    add_array(words[i].value);
  }
}

void Walker::run_getopts(Words words) {
  facts_.assign("OPTARG", {});
  if (words.size() > 1 && words[1].is_static() && words[1].value == "--") words = words.subspan(1);
  if (words.size() > 1 && words[1].splits) return need_variable_name(words[1]);
  if (words.size() > 2) set_variable(words[2], {});
}

void Walker::run_wait(Words words, const Context& context) {
  const Options options =
      read_options(words, "p", [&](char, const Word* value, const std::string& attached) {
        if (value != nullptr) set_variable(option_word(value, attached), {true, true, {}});
      });
  for (const Word* value : options.open) need_single(*value, context);
  for (std::size_t i = options.end; i < words.size(); ++i) need_single(words[i], context);
}

void Walker::run_let(Words words, const Context& context) {
  for (const Word& word : words.subspan(1)) {
    if (word.glob || word.brace || word.tilde) {
      unresolved(word.at, "Files that match this would be evaluated (" + rules_.name +
                              " policy); put the expression in quotes");
    }
    evaluate(word, context);
  }
}

}  // namespace tb::policy
