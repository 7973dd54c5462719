// SPDX-License-Identifier: Apache-2.0
// Walker: allowed programs that can be told to start others. Only the plain cases are seen here, so
// that they get a readable answer; the kernel's layer stops the rest.
#include "policy/walker.h"

namespace tb::policy {
namespace {

// awk: `system(` or a pipe, outside of strings, regular expressions and comments.
bool awk_starts_commands(std::string_view text) {
  char last = ' ';  // The last byte that is no blank.
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool operand =
        is_name_byte(static_cast<unsigned char>(last)) || last == ')' || last == ']' || last == '$';
    if (c == '#') {
      i = text.find('\n', i);
    } else if (c == '"' || (c == '/' && !operand)) {
      for (++i; i < text.size() && text[i] != c; ++i) {
        if (text[i] == '\\') ++i;
      }
    } else if (c == '|' && text.substr(i, 2) == "||") {
      ++i;
    } else if (c == '|') {
      return true;
    } else if (text.substr(i, 6) == "system" && !is_name_byte(static_cast<unsigned char>(last))) {
      const std::size_t open = text.find_first_not_of(" \t", i + 6);
      if (open < text.size() && text[open] == '(') return true;
    }
    if (i >= text.size()) return false;
    if (text[i] != ' ' && text[i] != '\t' && text[i] != '\n') last = text[i];
  }
  return false;
}

// Past the part of s/// or y/// that begins at `i`; npos when it does not end.
std::size_t sed_part(std::string_view text, std::size_t i, char delimiter) {
  for (bool bracket = false; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '[' && delimiter != '[') {
      bracket = true;
    } else if (text[i] == ']') {
      bracket = false;
    } else if (text[i] == delimiter && !bracket) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// Past addresses and blanks before a command.
std::size_t sed_address(std::string_view text, std::size_t i) {
  while (i < text.size()) {
    const char c = text[i];
    if (c == '/' || (c == '\\' && i + 1 < text.size())) {
      const char delimiter = c == '/' ? c : text[++i];
      i = sed_part(text, i + 1, delimiter);
      while (i < text.size() && (text[i] == 'I' || text[i] == 'M')) ++i;
    } else if (std::string_view{" \t\n;,$!+~{}0123456789"}.find(c) != std::string_view::npos) {
      ++i;
    } else {
      break;
    }
  }
  return i;
}

// sed: the command e, or s with the flag e.
bool sed_starts_commands(std::string_view text) {
  for (std::size_t i = sed_address(text, 0); i < text.size(); i = sed_address(text, i)) {
    const char c = text[i];
    if (c == 'e') return true;
    if (c == 's' || c == 'y') {
      if (i + 1 >= text.size()) return false;
      const char delimiter = text[i + 1];
      i = sed_part(text, i + 2, delimiter);
      if (i != text.npos) i = sed_part(text, i, delimiter);
      for (; i < text.size() && text[i] != ';' && text[i] != '\n' && text[i] != '}'; ++i) {
        if (c == 's' && text[i] == 'e') return true;
        if (text[i] == 'w') break;
      }
      if (i < text.size() && text[i] == 'w') i = text.find('\n', i);
    } else if (std::string_view{"aicrRwWbtT:#"}.find(c) != std::string_view::npos) {
      const bool label = c == 'b' || c == 't' || c == 'T';
      i = text.find_first_of(label ? ";\n}" : "\n", i);
    } else {
      ++i;
    }
  }
  return false;
}

}  // namespace

void Walker::run_awk(Words words) {
  for (const Word& word : words.subspan(1)) {
    if (word.value.starts_with("-F")) continue;
    if (word.value.find_first_of("({") == std::string::npos) continue;
    if (awk_starts_commands(word.value)) {
      unresolved(word.at, "awk must not start commands: system() or a pipe (" + rules_.name +
                              " policy); start them in the shell");
    }
  }
}

void Walker::run_sed(Words words) {
  bool script = true;  // The first operand is the script, unless -e or -f gave one.
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& text = words[i].value;
    std::string_view program;
    if (text == "-f" || text.starts_with("--file")) {
      script = false;
      ++i;
      continue;
    }
    if (text.starts_with("--expression=")) {
      program = std::string_view{text}.substr(13);
    } else if (text.size() > 1 && text[0] == '-' && text[1] != '-') {
      if (!text.ends_with('e') || i + 1 >= words.size()) continue;
      program = words[++i].value;
    } else if (text.starts_with("--") || !script) {
      continue;
    } else {
      program = text;
    }
    script = false;
    if (sed_starts_commands(program)) {
      unresolved(words[i].at, "sed must not start commands: e, or s with the flag e (" +
                                  rules_.name + " policy); start them in the shell");
    }
  }
}

void Walker::run_sort(Words words) {
  for (const Word& word : words.subspan(1)) {
    if (word.value.starts_with("--co")) {
      unresolved(word.at, "sort must not start a program to compress with (" + rules_.name +
                              " policy); leave the option out");
    }
  }
}

}  // namespace tb::policy
