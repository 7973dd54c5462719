// SPDX-License-Identifier: Apache-2.0
#include "box/command.h"

#include <algorithm>

#include "base/error.h"

namespace tb::box {
namespace {

constexpr std::size_t kMaxShown = 4096;  // bytes of a command's text that are remembered
constexpr std::size_t kMaxTag = 256;
constexpr std::size_t kMaxUrl = 2048;
constexpr std::uint64_t kMaxTime = 1ull << 53;  // microseconds: beyond the year 2200
constexpr unsigned kMaxSide = 65535;            // of a terminal: struct winsize has 16 bits

bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

}  // namespace

std::vector<std::string> environment_of(const sandbox::Command& command) {
  std::vector<std::pair<std::string, std::string>> all = {
      {"PATH", "/usr/local/bin:/usr/bin:/bin"},
      {"HOME", "/home/sandboxuser"},
      {"USER", "sandboxuser"},
      {"LOGNAME", "sandboxuser"},
      {"SHELL", "/bin/bash"},
      {"LANG", "C.UTF-8"},
      {"TERM", command.terminal ? "xterm-256color" : "dumb"},
  };
  for (const auto& [name, value] : command.env) {
    const auto same = std::find_if(all.begin(), all.end(),
                                   [&](const auto& entry) { return entry.first == name; });
    if (same != all.end()) {
      same->second = value;
    } else {
      all.emplace_back(name, value);
    }
  }
  std::vector<std::string> list;
  list.reserve(all.size());
  for (const auto& [name, value] : all) list.push_back(name + "=" + value);
  return list;
}

void validate(const sandbox::Command& command) {
  if (command.script.empty() && command.argv.empty()) {
    throw Error{Code::invalid, "the command is empty"};
  }
  bool nul = has_nul(command.script) || has_nul(command.cwd);
  for (const std::string& word : command.argv) nul = nul || has_nul(word);
  if (nul) throw Error{Code::invalid, "a command can't contain NUL bytes"};
  for (const auto& [name, value] : command.env) {
    if (name.empty() || name.find('=') != std::string::npos || has_nul(name) || has_nul(value)) {
      throw Error{Code::invalid, "not a name of an environment variable: \"" + name + "\""};
    }
  }
  if (command.tag.size() > kMaxTag) throw Error{Code::invalid, "the tag is too long"};
  if (command.notify_url.size() > kMaxUrl) throw Error{Code::invalid, "the URL is too long"};
  if (command.terminal) validate(*command.terminal);
  if (command.shell != 0 && (command.script.empty() || command.terminal ||
                             command.keep_stdin_open || !command.input.empty())) {
    throw Error{Code::invalid, "a shell runs bash text, with neither stdin nor a terminal"};
  }
}

void validate(const sandbox::Terminal& terminal) {
  const auto good = [](unsigned side) { return side >= 1 && side <= kMaxSide; };
  if (!good(terminal.rows) || !good(terminal.columns)) {
    throw Error{Code::invalid, "a terminal has 1 to 65535 rows and columns"};
  }
}

sandbox::ProcessInfo describe(const sandbox::Command& command) {
  sandbox::ProcessInfo info;
  info.tag = command.tag;
  info.key = command.key;
  info.notify_url = command.notify_url;
  info.command = command.script.substr(0, kMaxShown);
  for (const std::string& word : command.argv) {
    if (!command.script.empty() || info.command.size() >= kMaxShown) break;
    info.command += (info.command.empty() ? "" : " ") + word.substr(0, kMaxShown);
  }
  info.command.resize(std::min(info.command.size(), kMaxShown));
  info.cwd = command.cwd.substr(0, kMaxShown);
  info.terminal = command.terminal.has_value();
  info.shell = command.shell;
  // As exact as a note is: the same before and after a restart.
  info.started =
      std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
  return info;
}

sandbox::ProcessInfo describe(const sandbox::ShellSpec& spec) {
  sandbox::Command command;
  command.argv = {"bash"};
  command.cwd = spec.cwd;
  command.env = spec.env;
  command.tag = spec.tag;
  validate(command);
  return describe(command);
}

guest::Start to_start(std::uint32_t id, const sandbox::ShellSpec& spec,
                      const sandbox::ProcessInfo& info) {
  sandbox::Command command;
  command.env = spec.env;
  guest::Start start;
  start.id = id;
  start.kind = guest::Kind::shell;
  start.cwd = spec.cwd;
  start.env = environment_of(command);
  start.note = to_note(info);
  return start;
}

guest::Start to_start(std::uint32_t id, sandbox::Command& command) {
  guest::Start start;
  start.id = id;
  if (command.shell != 0) {
    start.kind = guest::Kind::run;
    start.shell = command.shell;
  }
  start.timeout_ms = command.timeout ? static_cast<std::uint64_t>(command.timeout->count()) : 0;
  start.cwd = command.cwd;
  start.env = environment_of(command);
  start.argv = std::move(command.argv);
  start.script = std::move(command.script);
  if (command.terminal) {
    start.terminal = 1;
    start.rows = command.terminal->rows;
    start.columns = command.terminal->columns;
  } else if (command.keep_stdin_open) {
    start.input_mode = guest::InputMode::open;
  } else {
    start.input = std::move(command.input);
    command.input.clear();
  }
  return start;
}

std::string to_note(const sandbox::ProcessInfo& info) {
  const auto since = info.started.time_since_epoch();
  Writer out;
  out.u64(static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(since).count()));
  out.i32(info.pid);
  out.u8(info.terminal ? 1 : 0);
  out.bytes(info.tag);
  out.bytes(info.command);
  out.bytes(info.cwd);
  out.bytes(info.key);
  out.bytes(info.notify_url);
  out.u32(info.shell);
  return out.take();
}

bool from_note(std::string_view note, sandbox::ProcessInfo& info) {
  Reader in{note};
  sandbox::ProcessInfo read;
  const std::uint64_t started = in.u64();
  if (started > kMaxTime) return false;
  read.started = std::chrono::system_clock::time_point{
      std::chrono::microseconds{static_cast<std::int64_t>(started)}};
  read.pid = in.i32();
  read.terminal = in.u8() != 0;
  read.tag = in.bytes();
  read.command = in.bytes();
  read.cwd = in.bytes();
  read.key = in.bytes();
  if (!in.done()) read.notify_url = in.bytes();  // notes of earlier versions have none
  if (!in.done()) read.shell = in.u32();         // notes of before have none
  if (!in.done()) return false;
  info = std::move(read);
  return true;
}

}  // namespace tb::box
