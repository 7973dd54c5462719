// SPDX-License-Identifier: Apache-2.0
#include "registry/tool_command.h"

#include <charconv>

#include "base/error.h"

namespace tb::registry {
namespace json = boost::json;
namespace {

constexpr std::size_t kMaxWord = (128 << 10) - 1;  // MAX_ARG_STRLEN of execve(2)

std::string number_text(double number) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof text, number);
  return {text, end};
}

std::string text_of(const json::value& value) {
  if (value.is_string()) return std::string{value.get_string()};
  if (value.is_double()) return number_text(value.get_double());
  return json::serialize(value);
}

class Maker {
 public:
  Maker(const Tool& tool, const json::object& parameters) : tool_(tool), given_(parameters) {}

  sandbox::Command make() {
    sandbox::Command command;
    for (const Word& word : tool_.command) add(word, command.argv);
    for (const auto& [name, word] : tool_.variables) {
      if (word.parameter.empty()) {
        command.env.emplace_back(name, word.text);
      } else if (const json::value* value = find(word)) {
        command.env.emplace_back(name, checked(word.parameter, text_of(*value)));
      }
    }
    if (!tool_.input) {
      command.input = json::serialize(given_);
    } else if (tool_.input->parameter.empty()) {
      command.input = tool_.input->text;
    } else if (const json::value* value = find(*tool_.input)) {
      command.input = text_of(*value);
    }
    command.timeout = tool_.timeout;
    command.tag = "tool " + tool_.name;
    return command;
  }

 private:
  // Null and absent are the same.
  const json::value* find(const Word& word) const {
    const json::value* value = given_.if_contains(word.parameter);
    return value && !value->is_null() ? value : nullptr;
  }

  std::string checked(const std::string& parameter, std::string text) const {
    if (text.size() > kMaxWord) {
      throw Error{Code::invalid, "\"" + parameter + "\" is longer than the 128 KiB that " +
                                     tool_.name + " can take as a word"};
    }
    if (text.find('\0') != text.npos) {
      throw Error{Code::invalid, "\"" + parameter + "\" must not contain NUL"};
    }
    return text;
  }

  void add(const Word& word, std::vector<std::string>& argv) const {
    if (word.parameter.empty()) {
      argv.push_back(word.text);
      return;
    }
    const json::value* value = find(word);
    if (!value) return;
    if (!value->is_array()) {
      argv.push_back(word.text + checked(word.parameter, text_of(*value)));
      return;
    }
    for (const json::value& item : value->get_array()) {
      argv.push_back(word.text + checked(word.parameter, text_of(item)));
    }
  }

  const Tool& tool_;
  const json::object& given_;
};

}  // namespace

sandbox::Command make_command(const Tool& tool, const json::object& parameters) {
  return Maker{tool, parameters}.make();
}

}  // namespace tb::registry
