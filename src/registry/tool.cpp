// SPDX-License-Identifier: Apache-2.0
// registry/tools/*.yaml
#include <cmath>

#include "registry/items.h"
#include "yaml/json.h"

namespace tb::registry {
namespace json = boost::json;
namespace {

using yaml::Node;

// "--path=" of "--path={{path}}": what may stand before a value, so that no shell or program text
// is ever put together from it.
bool is_option(std::string_view text) {
  if (text.size() < 3 || text[0] != '-' || text.back() != '=') return false;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') return false;
  }
  return true;
}

class ToolReader {
 public:
  explicit ToolReader(const yaml::Reader& reader) : reader_(reader) {}

  Tool read(const Node& root) {
    // First: the others name them.
    if (const Node* node = root.find("parameters")) read_parameters(*node);
    reader_.fields(
        root,
        {{"name", [&](const Node& n) { to_.name = read_name(reader_, n); }},
         {"description", [&](const Node& n) { to_.description = reader_.text("description", n); }},
         {"type", [&](const Node& n) { reader_.text("type", n); }},
         {"parameters", [](const Node&) {}},
         {"command", [&](const Node& n) { read_command(n); }},
         {"script", [&](const Node& n) { read_script(n); }},
         {"stdin", [&](const Node& n) { to_.input = word("stdin", n); }},
         {"environment", [&](const Node& n) { read_variables(n); }},
         {"timeout", [&](const Node& n) { read_timeout(n); }},
         {"allow_network",
          [&](const Node& n) { to_.needs_network = reader_.truth("allow_network", n); }},
         {"examples", [](const Node&) {}},
         {"capabilities", [&](const Node& n) { reader_.texts("capabilities", n); }}});
    if (root.find("command") && root.find("script")) {
      reader_.fail(root.find("script")->line, "give either command or script");
    }
    if (!root.find("command") && !root.find("script")) {
      reader_.fail(root.line, "command is missing: the program and its words, as [python3, -]");
    }
    return std::move(to_);
  }

 private:
  void read_parameters(const Node& node) {
    yaml::Lines lines;
    json::value document = yaml::to_json(reader_, node, &lines);
    const json::object* object = document.if_object();
    const json::value* type = object ? object->if_contains("type") : nullptr;
    if (!type || !type->is_string() || type->get_string() != "object") {
      return reader_.fail(node.line, "parameters must be a JSON Schema with type: object");
    }
    std::vector<Schema::Problem> problems;
    Schema schema{std::move(document), problems};
    for (const Schema::Problem& problem : problems) {
      reader_.fail(line_of(lines, problem.pointer, node.line),
                   "parameters" + problem.pointer + ": " + problem.what);
    }
    if (problems.empty()) to_.parameters = std::move(schema);
    has_parameters_ = problems.empty();
    failed_parameters_ = !problems.empty();
  }

  static int line_of(const yaml::Lines& lines, const std::string& pointer, int otherwise) {
    const auto found = lines.find(pointer);
    return found == lines.end() ? otherwise : found->second;
  }

  bool is_parameter(const std::string& name) const {
    if (failed_parameters_) return true;  // complained about already
    if (!has_parameters_) return false;
    const json::object& schema = to_.parameters.document().get_object();
    const json::value* properties = schema.if_contains("properties");
    return properties && properties->get_object().contains(name);
  }

  // "{{name}}", "--option={{name}}", or text without a parameter.
  Word word(const std::string& key, const Node& node) {
    Word word;
    word.text = reader_.text(key, node);
    const std::size_t begin = word.text.find("{{");
    if (begin == word.text.npos) return word;
    const std::string text = word.text;
    word.text = text.substr(0, begin);
    const bool whole = text.ends_with("}}") && text.find("}}") + 2 == text.size();
    if (!whole || !(word.text.empty() || (key == "command" && is_option(word.text)))) {
      reader_.fail(node.line, key + ": a parameter must be a word of its own, as \"{{path}}\"" +
                                  (key == "command" ? ", or an option, as --path={{path}}" : ""));
      return word;
    }
    word.parameter = text.substr(begin + 2, text.size() - begin - 4);
    word.parameter.erase(0, word.parameter.find_first_not_of(' '));
    word.parameter.erase(word.parameter.find_last_not_of(' ') + 1);
    if (!is_parameter(word.parameter)) {
      reader_.fail(node.line, key + ": there is no parameter \"" + word.parameter + "\"");
    }
    return word;
  }

  void read_command(const Node& node) {
    if (node.kind != Node::Kind::list || node.items.empty()) {
      return reader_.fail(node.line, "command must be a list of words, as [python3, -]");
    }
    for (const Node& item : node.items) to_.command.push_back(word("command", item));
    if (!to_.command.front().parameter.empty() || to_.command.front().text.empty()) {
      reader_.fail(node.line, "command must begin with the name of a program");
    }
  }

  void read_script(const Node& node) {
    const std::string path = reader_.text("script", node);
    if (!path.starts_with("/")) {
      return reader_.fail(node.line, "script must be a path in the sandbox, as /workspace/x.sh");
    }
    to_.command.push_back({path, {}});
  }

  void read_variables(const Node& node) {
    if (!reader_.is_map("environment", node)) return;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const std::string& name = node.keys[i].text;
      if (name.empty() || name.find_first_of("=\0 ") != name.npos) {
        reader_.fail(node.keys[i].line, "'" + name + "' is not a name of an environment variable");
      }
      to_.variables.emplace_back(name, word("environment", node.items[i]));
    }
  }

  void read_timeout(const Node& node) {
    const auto seconds = reader_.number("timeout", node, 1, 86'400);
    if (seconds) to_.timeout = Milliseconds{std::llround(*seconds * 1000)};
  }

  const yaml::Reader& reader_;
  Tool to_;
  bool has_parameters_ = false;
  bool failed_parameters_ = false;
};

}  // namespace

Tool read_tool(const yaml::Reader& reader, const Node& root) {
  return ToolReader{reader}.read(root);
}

}  // namespace tb::registry
