// SPDX-License-Identifier: Apache-2.0
// Walker: expansions and arithmetic, and what values they can have.
#include <algorithm>
#include <string_view>

#include "policy/walker.h"

namespace tb::policy {
namespace {

bool is_positional(const std::string& name) {
  return name == "@" || name == "*" ||
         (!name.empty() && name != "0" &&
          name.find_first_not_of("0123456789") == std::string::npos);
}

bool is_counter(const std::string& name) {
  return name == "#" || name == "?" || name == "$" || name == "!";
}

void merge(Value& into, const Value& value) {
  into.numeric = into.numeric && value.numeric;
  into.tame = into.tame && value.tame;
  into.from.insert(into.from.end(), value.from.begin(), value.from.end());
}

Value text_value(std::string_view text) {
  return {is_numeric_text(text), text.empty() || is_tame_text(text), {}};
}

// ${x//[!0-9]/}: whatever x holds, digits are left.
bool keeps_digits(const Param& param) {
  if (param.op != "//" || param.words.empty() || param.indirect) return false;
  const Word& pattern = param.words[0];
  const bool digits = pattern.value == "[!0-9]" || pattern.value == "[^0-9]" ||
                      pattern.value == "[!0-9]/" || pattern.value == "[^0-9]/";
  return digits && !pattern.quoted && pattern.expansions.empty() &&
         (param.words.size() == 1 ||
          (param.words[1].value.empty() && param.words[1].expansions.empty()));
}

// What may stand beside the numbers of `let x=$i*2`.
bool is_expression_text(std::string_view text) {
  return text.find_first_not_of("0123456789+-*/%., :()<>=\n") == std::string_view::npos;
}

// What is left of one word by these is one word that begins as that did.
bool keeps_words(const std::string& op) {
  return op.empty() || op.ends_with('-') || op.ends_with('=') || op.ends_with('?') ||
         op.ends_with('+') || op == "^" || op == ",";
}

bool is_short_option(const Word& word) {
  return word.value.size() > 1 && word.value[0] == '-' && word.value[1] != '-';
}

// Messages of a program can hold any text: they must not get into its output.
bool keeps_output(const Redirect& redirect) {
  return redirect.op == "<" || redirect.op == "<<<" || redirect.op == "<<" ||
         redirect.op == "<<-" || redirect.target.value == "/dev/null";
}

bool starts_any(const std::string& text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return text.starts_with(start); });
}

}  // namespace

void Walker::walk(const Word& word, const Context& context) {
  for (const Expansion& expansion : word.expansions) walk(expansion, context);
}

void Walker::walk(const Expansion& expansion, const Context& context) {
  Context inside = context;
  inside.straight = false;
  if (expansion.script) walk(*expansion.script, inside);
  if (expansion.arith) walk(*expansion.arith, inside);
  if (expansion.param) walk(*expansion.param, expansion.at, inside);
}

void Walker::walk(const Param& param, std::size_t at, const Context& context) {
  if (param.subscript) walk(*param.subscript, context, param.name);
  for (const Arith& offset : param.offsets) walk(offset, context);
  for (const Word& word : param.words) walk(word, context);
  // ${!a[@]} are the keys of an array, but with an operator a[@] names a variable.
  if (param.indirect && (!param.all || !param.op.empty())) {
    unresolved(at, "Variable that ${!" + param.name +
                       "} stands for can't be known before it runs (" + rules_.name +
                       " policy); name the variable itself, or use an array");
  }
  if (param.op == "@P") {
    unresolved(at, "Text of ${" + param.name +
                       "@P} is expanded once more, which can run commands (" + rules_.name +
                       " policy); leave out the @P");
  }
  if (param.op == "=" || param.op == ":=") {
    set_variable(at, param.name, value_of(param.words[0], context));
  }
}

void Walker::walk(const Arith& arith, const Context& context, const std::string& array) {
  for (const Expansion& expansion : arith.expansions) {
    walk(expansion, context);
    const Value value = value_of(expansion, context);
    if (!value.numeric) {
      need(arith.at, "_", Fit::numeric, array);  // `_` is never fit.
    }
    for (const std::string& name : value.from) need(arith.at, name, Fit::numeric, array);
  }
  if (arith.quotes) need(arith.at, "_", Fit::numeric, array);
  scan_arith(arith.text, arith.at, array);
}

// The names in an expression: those that it reads must be fit, those that it sets become numbers.
void Walker::scan_arith(std::string_view text, std::size_t at, const std::string& array) {
  for (std::size_t i = 0; i < text.size();) {
    if (!is_name_byte(static_cast<unsigned char>(text[i]))) {
      if (text[i] == '\'' || text[i] == '`' || text[i] == '$') need(at, "_", Fit::numeric, array);
      ++i;
      continue;
    }
    const std::size_t begin = i;
    while (i < text.size() && (is_name_byte(static_cast<unsigned char>(text[i])))) ++i;
    const std::string name{text.substr(begin, i - begin)};
    const char before = begin > 0 ? text[begin - 1] : ' ';
    const char after = i < text.size() ? text[i] : ' ';
    const bool joined = before == Arith::kExpanded || after == Arith::kExpanded;
    if (!is_name_start(name[0]) && !joined) continue;
    if (joined && name.find_first_not_of("0123456789") != std::string::npos) {
      need(at, "_", Fit::numeric, array);  // a$i names another variable.
      continue;
    }
    if (joined || before == '#') continue;
    need(at, name, Fit::numeric, array);
    const std::string_view rest =
        text.substr(std::min(text.find_first_not_of(" \t\n", i), text.size()));
    const std::size_t equals = rest.find('=');
    const bool sets = (equals <= 3 && equals != rest.npos && rest.substr(0, 2) != "==" &&
                       rest.substr(0, equals).find_first_not_of("+-*/%<>&^|") == rest.npos &&
                       rest.substr(0, 2) != "<=" && rest.substr(0, 2) != ">=") ||
                      rest.starts_with("++") || rest.starts_with("--") || rest.starts_with('[') ||
                      before == '+' || before == '-';
    if (sets) set_variable(at, name, {true, true, {}});
  }
}

void Walker::evaluate(const Word& word, const Context& context) {
  walk(word, context);
  for (const Expansion& expansion : word.expansions) {
    const Value value = value_of(expansion, context);
    if (!value.numeric) need(word.at, "_", Fit::numeric);
    for (const std::string& name : value.from) need(word.at, name, Fit::numeric);
  }
  if (word.opaque) need(word.at, "_", Fit::numeric);
  std::string text = word.value;
  // A subscript in text that has lost its quotes may hold anything.
  if (text.find_first_of("[$`'") != std::string::npos) {
    const bool plain = text.find_first_of("$`'\"\\") == std::string::npos;
    if (!plain) need(word.at, "_", Fit::numeric);
  }
  const bool named = std::any_of(text.begin(), text.end(), [](char c) { return is_name_start(c); });
  if (!word.expansions.empty() && named) {
    // Where in the text an expansion stands is not kept, and a$i is one name: only x=$i is clear.
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || !is_name(text.substr(0, equals)) ||
        !is_expression_text(text.substr(equals)) || equals > word.fixed) {
      need(word.at, "_", Fit::numeric);
    }
  }
  scan_arith(text, word.at, {});
}

void Walker::need(std::size_t at, const std::string& name, Fit fit, const std::string& array) {
  needs_.push_back({at, name, fit, array, line_});
}

// The word must be exactly one word, and no option, when it reaches a builtin that would act on it.
void Walker::need_single(const Word& word, const Context& context) {
  if (word.is_static()) return;
  const Value value = value_of(word, context);
  // A pattern that begins with a letter matches no option.
  const bool names = word.glob && !word.brace && word.expansions.empty() && !word.value.empty() &&
                     (is_name_byte(static_cast<unsigned char>(word.value[0])) ||
                      word.value[0] == '.' || word.value[0] == '/');
  if (!value.tame && !names) {
    unresolved(word.at, "Value here can't be known before it runs (" + rules_.name +
                            " policy); put it in double quotes, after '--'");
  }
  for (const std::string& name : value.from) need(word.at, name, Fit::tame);
}

// An argument that names a variable: bash evaluates a subscript in it.
void Walker::need_variable_name(const Word& word) {
  std::string_view name = word.value;
  if (name.ends_with(']')) {
    const std::size_t open = name.find('[');
    const std::string_view subscript = name.substr(open + 1, name.size() - open - 2);
    if (subscript.find_first_not_of("0123456789") == std::string_view::npos || subscript == "@") {
      name = name.substr(0, open);
    }
  }
  const bool fixed = word.expansions.empty() && !word.brace && !word.tilde && !word.opaque;
  if (fixed && (is_name(name) || is_positional(std::string{name}))) return;
  unresolved(word.at, "Variable's name can't be known before it runs (" + rules_.name +
                          " policy); write the name directly");
}

Value Walker::value_of(const Word& word, const Context& context) const {
  Value value = word.expansions.empty() || !word.value.empty() ? text_value(word.value)
                                                               : Value{true, true, {}};
  if (word.glob || word.tilde || word.opaque) value = {};
  if (word.brace) value.tame = false;
  for (const Expansion& expansion : word.expansions) merge(value, value_of(expansion, context));
  return value;
}

Value Walker::value_of(const Expansion& expansion, const Context& context) const {
  switch (expansion.kind) {
    case Expansion::Kind::arith: return {true, true, {}};
    case Expansion::Kind::param: return value_of(*expansion.param, context);
    case Expansion::Kind::command: return output_of(*expansion.script, context);
    case Expansion::Kind::process: break;
  }
  return {};
}

Value Walker::value_of(const Param& param, const Context& context) const {
  if ((param.length && param.op.empty()) || keeps_digits(param)) return {true, true, {}};
  const bool text = param.name == "0" || param.name == "-";
  if (param.indirect || param.length || param.op.starts_with('@') || text) return {};
  Value value{true, keeps_words(param.op), {}};
  if (is_positional(param.name)) {
    value.from.push_back(context.function + "@");
  } else if (!is_counter(param.name)) {
    value.from.push_back(param.name);
  }
  if (!param.op.empty() && param.op != "#" && param.op != "%" && param.op != ":") {
    for (const Word& word : param.words) merge(value, value_of(word, context));
  }
  return value;
}

// What a command prints, where that can only be numbers.
Value Walker::output_of(const Script& script, const Context& context) const {
  if (script.pipelines.size() != 1 || script.pipelines[0].commands.empty()) return {};
  const Command& command = script.pipelines[0].commands.back();
  if (command.kind != Command::Kind::simple || command.words.empty()) return {};
  if (!std::all_of(command.redirects.begin(), command.redirects.end(), keeps_output)) return {};
  const Words words{command.words};
  if (!words[0].is_static()) return {};
  const std::string& name = words[0].value;
  // A trap for DEBUG or ERR can print into it.
  Value value{true, true, {"()" + name, "()trap"}};
  if (name == "seq" || name == "echo") {
    for (const Word& word : words.subspan(1)) merge(value, value_of(word, context));
    for (const Word& word : words.subspan(1)) {
      if (starts_any(word.value, {"-s", "-f", "-w", "--", "-e", "-n"})) return {};
    }
    value.tame = value.tame && words.size() == 2 && name == "echo";
    return value;
  }
  for (const Word& word : words.subspan(1)) {
    if (!word.is_static()) return {};
  }
  const std::string first = words.size() > 1 ? words[1].value : "";
  bool numbers = false;
  if (name == "wc") {
    numbers = std::all_of(words.begin() + 1, words.end(), is_short_option);
  } else if (name == "date") {
    numbers = words.size() == 2 && first.starts_with('+') &&
              first.find_first_not_of("+%YmdHMSsNjuwVyCUW0123456789-:. ") == std::string::npos &&
              is_numeric_text(first.substr(1)) == (first.find('%') == std::string::npos);
  } else if (name == "grep") {
    numbers = first == "-c" && words.size() <= 4 &&
              std::none_of(words.begin() + 2, words.end(),
                           [](const Word& word) { return word.value.starts_with('-'); });
  } else if (name == "id") {
    numbers = (first == "-u" || first == "-g") && words.size() == 2;
  } else if (name == "stat") {
    numbers = first == "-c" && words.size() == 4 &&
              (words[2].value == "%s" || words[2].value == "%Y") &&
              !words[3].value.starts_with('-');
  } else if (name == "tr") {
    numbers = (first == "-cd" || first == "-dc") && words.size() == 3 &&
              (words[2].value == "0-9" || words[2].value == "[:digit:]");
  }
  if (!numbers) return {};
  value.tame = name != "wc";
  return value;
}

}  // namespace tb::policy
