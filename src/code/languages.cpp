// SPDX-License-Identifier: Apache-2.0
#include "code/languages.h"

#include <algorithm>

#include "base/error.h"
#include "session/interpreters.h"

extern "C" {
extern const char tb_driver_python_begin[], tb_driver_python_end[];
extern const char tb_driver_javascript_begin[], tb_driver_javascript_end[];
}

namespace tb::code {
namespace {

struct Row {
  Language language;
  std::string_view name;
  std::string_view program;
  std::vector<std::string_view> others;
};

const std::vector<Row>& rows() {
  static const std::vector<Row> kRows = {
      {Language::python, "python", "python3", {"py", "python3"}},
      {Language::javascript, "javascript", "node", {"js", "node"}},
      {Language::bash, "bash", "bash", {"sh", "shell"}}};
  return kRows;
}

const Row& row_of(Language language) { return rows()[static_cast<std::size_t>(language)]; }

// Each reads the driver from its stdin, so that no list of processes is full of it. Python's gets
// builtins of its own: what code does to the real ones is no business of the driver's.
constexpr const char* kPython =
    "import builtins, os, sys\n"
    "size, text = int(sys.argv[1]), b''\n"
    "while len(text) < size: text += os.read(0, size - len(text)) or sys.exit(1)\n"
    "exec(compile(text, '<threadbox>', 'exec'),"
    " {'__name__': 'threadbox', '__builtins__': dict(vars(builtins))})";
// Node can't move its descriptors: bash does, and leaves.
constexpr const char* kJavaScript =
    "exec node -e \"{ const fs = require('fs'), size = Number(process.argv[1]),"
    " text = Buffer.alloc(size);"
    " for (let at = 0; at < size;) at += fs.readSync(3, text, at, size - at);"
    " new Function('require', text.toString())(require); }\" ";
constexpr const char* kDescriptors = " 3<&0 4>&1 0</dev/null 1>&2";

std::string between(const char* begin, const char* end) { return {begin, end}; }

}  // namespace

std::string_view name_of(Language language) { return row_of(language).name; }
std::string_view program_of(Language language) { return row_of(language).program; }

std::vector<std::string> language_names() {
  std::vector<std::string> names;
  for (const Row& row : rows()) names.emplace_back(row.name);
  return names;
}

Language language_named(std::string_view name) {
  for (const Row& row : rows()) {
    const auto& others = row.others;
    if (row.name == name || std::find(others.begin(), others.end(), name) != others.end()) {
      return row.language;
    }
  }
  std::string known;
  for (const std::string& one : language_names()) known += (known.empty() ? "" : ", ") + one;
  throw Error{Code::invalid,
              "Unknown language: " + std::string{name.substr(0, 100)} + "; known are " + known};
}

std::string tag_of(Language language) {
  return std::string{session::kInterpreterTag} + " " + std::string{name_of(language)};
}

sandbox::Command interpreter(Language language) {
  sandbox::Command command;
  command.keep_stdin_open = true;
  command.tag = tag_of(language);
  if (language == Language::python) {
    command.input = between(tb_driver_python_begin, tb_driver_python_end);
    command.argv = {"python3", "-c", kPython, std::to_string(command.input.size())};
  } else {
    command.input = between(tb_driver_javascript_begin, tb_driver_javascript_end);
    command.script = kJavaScript + std::to_string(command.input.size()) + kDescriptors;
  }
  return command;
}

std::optional<Language> find_interpreter(const sandbox::ProcessInfo& info) {
  for (const Row& row : rows()) {
    if (info.tag == tag_of(row.language)) return row.language;
  }
  return std::nullopt;
}

}  // namespace tb::code
