// SPDX-License-Identifier: Apache-2.0
#include "api/command_fields.h"

#include "api/fields.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::size_t kMaxLabel = 256;  // of a tag or a key
constexpr double kMaxSize = 10000;      // of a terminal

const json::value* find(const json::object& body, const char* name) {
  const json::value* value = body.if_contains(name);
  return value && !value->is_null() ? value : nullptr;
}

[[noreturn]] void refuse(const std::string& text) { throw http::HttpError{400, text}; }

std::string without_nul(std::string text) {
  if (text.find('\0') != std::string::npos) refuse("a command can't contain NUL bytes");
  return text;
}

void read_environment(const json::object& body, sandbox::Command& command) {
  const json::value* env = find(body, "env");
  if (!env) return;
  if (!env->is_object()) refuse("\"env\" must be an object of strings");
  for (const auto& [name, value] : env->get_object()) {
    if (!value.is_string()) refuse("\"env\" must be an object of strings");
    command.env.emplace_back(name, value.get_string());
  }
}

void read_words(const json::object& body, sandbox::Command& command) {
  const json::value* argv = find(body, "argv");
  if (!argv) return;
  if (!argv->is_array() || argv->get_array().empty()) refuse("\"argv\" must be a list of strings");
  for (const json::value& word : argv->get_array()) {
    if (!word.is_string()) refuse("\"argv\" must be a list of strings");
    command.argv.push_back(without_nul(std::string{word.get_string()}));
  }
}

unsigned read_size(const json::object& pty, const char* name, unsigned otherwise) {
  const auto number = find_number(pty, name);
  if (!number) return otherwise;
  if (!(*number >= 1) || *number > kMaxSize) {
    refuse(std::string{"\""} + name + "\" must be from 1 to 10000");
  }
  return static_cast<unsigned>(*number);
}

void read_terminal(const json::object& body, sandbox::Command& command) {
  const json::value* pty = find(body, "pty");
  if (!pty || (pty->is_bool() && !pty->get_bool())) return;
  sandbox::Terminal terminal;
  if (pty->is_object()) {
    terminal.rows = read_size(pty->get_object(), "rows", terminal.rows);
    terminal.columns = read_size(pty->get_object(), "cols", terminal.columns);
  } else if (!pty->is_bool()) {
    refuse("\"pty\" must be true, or an object with rows and cols");
  }
  command.terminal = terminal;
}

std::string read_label(const json::object& body, const char* name) {
  std::string label = find_text(body, name).value_or("");
  if (label.size() > kMaxLabel) refuse(std::string{"\""} + name + "\" is longer than 256 bytes");
  return label;
}

// Ours begin so.
std::string read_tag(const json::object& body) {
  std::string tag = read_label(body, "tag");
  if (tag.starts_with("threadbox.")) refuse("\"tag\" must not begin with \"threadbox.\"");
  return tag;
}

}  // namespace

sandbox::Command read_command(const json::object& body) {
  sandbox::Command command;
  command.script = without_nul(find_text(body, "command").value_or(""));
  command.timeout = find_timeout(body);
  if (auto cwd = find_text(body, "cwd")) command.cwd = std::move(*cwd);
  if (auto input = find_text(body, "stdin")) command.input = std::move(*input);
  read_environment(body, command);
  command.notify_url = find_text(body, "notify_url").value_or("");
  command.tag = read_tag(body);
  return command;
}

sandbox::ShellSpec read_shell(const json::object& body) {
  sandbox::Command like = read_command(body);
  sandbox::ShellSpec spec;
  spec.cwd = std::move(like.cwd);
  spec.env = std::move(like.env);
  spec.tag = read_tag(body);
  return spec;
}

sandbox::Command read_process(const json::object& body) {
  sandbox::Command command = read_command(body);
  read_words(body, command);
  const bool script = find(body, "command") != nullptr;
  if (script == !command.argv.empty()) refuse("give either \"command\" or \"argv\"");
  command.keep_stdin_open = find_flag(body, "stdin_open").value_or(false);
  read_terminal(body, command);
  command.key = read_label(body, "idempotency_key");
  return command;
}

}  // namespace tb::api
