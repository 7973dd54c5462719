// SPDX-License-Identifier: Apache-2.0
// registry/agents/*.yaml and registry/prompts/*.yaml
#include <algorithm>

#include "registry/items.h"

namespace tb::registry {
using yaml::Node;

std::string read_name(const yaml::Reader& reader, const Node& node) {
  constexpr std::size_t kMost = 64;
  const std::string name = reader.text("name", node);
  const auto fine = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
  };
  if (name.empty() || name.size() > kMost || name[0] == '.' ||
      !std::all_of(name.begin(), name.end(), fine)) {
    reader.fail(node.line, "name must be up to 64 letters, digits, dots, dashes and underscores");
  }
  return name;
}

namespace {

void read_tools(const yaml::Reader& reader, const Node& node, Agent& to,
                std::vector<Reference>& references) {
  to.tools = reader.texts("tools", node);
  for (const Node& item : node.items) {
    references.push_back({"tools", item.text, reader.file(), item.line});
  }
}

void read_examples(const yaml::Reader& reader, const Node& node) {
  if (node.kind != Node::Kind::list) return reader.fail(node.line, "examples must be a list");
  for (const Node& item : node.items) {
    if (!reader.is_map("an example", item)) continue;
    reader.fields(item, {{"task", [&](const Node& n) { reader.text("task", n); }},
                         {"approach", [&](const Node& n) { reader.text("approach", n); }}});
  }
}

}  // namespace

Agent read_agent(const yaml::Reader& reader, const Node& root, std::vector<Reference>& references) {
  Agent to;
  const auto refer = [&](const char* kind, const Node& node) {
    references.push_back({kind, node.text, reader.file(), node.line});
  };
  reader.fields(
      root,
      {{"name", [&](const Node& n) { to.name = read_name(reader, n); }},
       {"description", [&](const Node& n) { to.description = reader.text("description", n); }},
       {"environment",
        [&](const Node& n) {
          to.environment = reader.text("environment", n);
          refer("environments", n);
        }},
       {"provider", [&](const Node& n) { to.provider = reader.text("provider", n); }},
       {"tools", [&](const Node& n) { read_tools(reader, n, to, references); }},
       {"prompt",
        [&](const Node& n) {
          to.prompt = reader.text("prompt", n);
          refer("prompts", n);
        }},
       {"system_prompt",
        [&](const Node& n) { to.system_prompt = reader.text("system_prompt", n); }},
       {"capabilities", [&](const Node& n) { reader.texts("capabilities", n); }},
       {"examples", [&](const Node& n) { read_examples(reader, n); }}});
  if (to.environment.empty()) reader.fail(root.line, "environment is missing");
  if (!to.prompt.empty() && !to.system_prompt.empty()) {
    reader.fail(root.find("prompt")->line, "give either prompt or system_prompt");
  }
  return to;
}

Prompt read_prompt(const yaml::Reader& reader, const Node& root) {
  Prompt to;
  reader.fields(
      root,
      {{"name", [&](const Node& n) { to.name = read_name(reader, n); }},
       {"description", [&](const Node& n) { to.description = reader.text("description", n); }},
       {"system_prompt",
        [&](const Node& n) { to.system_prompt = reader.text("system_prompt", n); }}});
  if (to.system_prompt.empty()) reader.fail(root.line, "system_prompt is missing");
  return to;
}

}  // namespace tb::registry
