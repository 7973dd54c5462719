// SPDX-License-Identifier: Apache-2.0
#include "yaml/reader.h"

#include <yaml-cpp/yaml.h>

#include <charconv>
#include <set>

namespace tb::yaml {
namespace {

constexpr std::size_t kMaxBytes = 1 << 20;
constexpr std::size_t kMaxNodes = 100'000;  // an alias counts as what it stands for
constexpr std::size_t kMaxText = 4 << 20;   // here too
constexpr int kMaxDepth = 64;

struct TooMuch {
  int line;
  const char* what;
};

int line_of(const YAML::Mark& mark) { return mark.is_null() ? 0 : mark.line + 1; }

class Copy {
 public:
  Node of(const YAML::Node& from, int depth = 0) {
    Node to;
    to.line = line_of(from.Mark());
    if (depth > kMaxDepth) throw TooMuch{to.line, "is nested too deeply"};
    if (++count_ > kMaxNodes) throw TooMuch{to.line, "has too many values"};
    if (from.IsScalar()) {
      to.kind = Node::Kind::scalar;
      to.text = from.Scalar();
      if ((bytes_ += to.text.size()) > kMaxText) throw TooMuch{to.line, "has too much text"};
      to.quoted = from.Tag() == "!";
    } else if (from.IsSequence()) {
      to.kind = Node::Kind::list;
      for (const YAML::Node& item : from) to.items.push_back(of(item, depth + 1));
    } else if (from.IsMap()) {
      to.kind = Node::Kind::map;
      for (const auto& entry : from) {
        to.keys.push_back(of(entry.first, depth + 1));
        to.items.push_back(of(entry.second, depth + 1));
      }
    }
    return to;
  }

 private:
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
};

template <class T>
std::optional<T> parse_number(const std::string& text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string plain(double number) {
  std::string text = std::to_string(number);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace

const Node* Node::find(std::string_view key) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].text == key) return &items[i];
  }
  return nullptr;
}

void Problems::add(const std::string& file, int line, const std::string& what) {
  lines_.push_back(file + (line > 0 ? ":" + std::to_string(line) : "") + ": " + what);
}

std::optional<Node> Reader::parse(std::string_view yaml) const {
  if (yaml.size() > kMaxBytes) {
    fail(0, "is larger than 1 MiB");
    return std::nullopt;
  }
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string{yaml});
    if (documents.size() > 1) fail(line_of(documents[1].Mark()), "must hold one document");
    Node root = documents.empty() ? Node{} : Copy{}.of(documents.front());
    if (root.kind == Node::Kind::map) return root;
    fail(std::max(root.line, 1), "must be a map of keys; the first is name");
  } catch (const YAML::Exception& error) {
    fail(line_of(error.mark), error.msg);
  } catch (const TooMuch& error) {
    fail(error.line, error.what);
  }
  return std::nullopt;
}

void Reader::fields(const Node& map, const std::vector<Field>& known) const {
  std::set<std::string> seen;
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    const Node& key = map.keys[i];
    if (key.kind != Node::Kind::scalar) {
      fail(key.line, "a key must be text");
      continue;
    }
    if (!seen.insert(key.text).second) {
      fail(key.line, "'" + key.text + "' stands there twice");
      continue;
    }
    const Field* found = nullptr;
    for (const Field& field : known) {
      if (field.key == key.text) found = &field;
    }
    if (found) {
      found->read(map.items[i]);
      continue;
    }
    std::vector<std::string> names;
    for (const Field& field : known) names.emplace_back(field.key);
    fail(key.line, "unknown key '" + key.text + "'; known are " + listed(names));
  }
}

std::string Reader::text(const std::string& key, const Node& node) const {
  if (node.kind == Node::Kind::scalar) return node.text;
  fail(node.line, key + " must be text");
  return {};
}

bool Reader::truth(const std::string& key, const Node& node) const {
  const bool fine =
      node.kind == Node::Kind::scalar && (node.text == "true" || node.text == "false");
  if (!fine) fail(node.line, key + " must be true or false");
  return fine && node.text == "true";
}

std::optional<double> Reader::number(const std::string& key, const Node& node, double least,
                                     double most) const {
  std::optional<double> value;
  if (node.kind == Node::Kind::scalar && !node.quoted) value = parse_number<double>(node.text);
  if (value && *value >= least && *value <= most) return value;
  fail(node.line, key + " must be a number from " + plain(least) + " to " + plain(most));
  return std::nullopt;
}

std::optional<std::uint64_t> Reader::whole(const std::string& key, const Node& node,
                                           std::uint64_t least, std::uint64_t most) const {
  std::optional<std::uint64_t> value;
  if (node.kind == Node::Kind::scalar && !node.quoted) {
    value = parse_number<std::uint64_t>(node.text);
  }
  if (value && *value >= least && *value <= most) return value;
  fail(node.line, key + " must be a whole number from " + std::to_string(least) + " to " +
                      std::to_string(most));
  return std::nullopt;
}

std::vector<std::string> Reader::texts(const std::string& key, const Node& node) const {
  std::vector<std::string> texts;
  if (node.kind != Node::Kind::list) {
    fail(node.line, key + " must be a list, as [a, b]");
    return texts;
  }
  for (const Node& item : node.items) {
    if (item.kind == Node::Kind::scalar) {
      texts.push_back(item.text);
    } else {
      fail(item.line, key + " must be a list of texts");
    }
  }
  return texts;
}

bool Reader::is_map(const std::string& key, const Node& node) const {
  if (node.kind == Node::Kind::map) return true;
  fail(node.line, key + " must be a map of keys");
  return false;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace tb::yaml
