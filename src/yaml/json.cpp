// SPDX-License-Identifier: Apache-2.0
#include "yaml/json.h"

#include <charconv>
#include <cmath>

namespace tb::yaml {
namespace json = boost::json;
namespace {

json::value scalar(const Node& node) {
  const std::string& text = node.text;
  if (node.quoted) return json::value(text);
  if (text.empty() || text == "~" || text == "null") return nullptr;
  if (text == "true" || text == "false") return text == "true";
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto read = std::from_chars(text.data(), end, whole);
      read.ec == std::errc{} && read.ptr == end) {
    return whole;
  }
  double number = 0;
  // from_chars also knows "inf" and "nan", which JSON has not.
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec == std::errc{} && read.ptr == end && std::isfinite(number)) return number;
  return json::value(text);
}

class Converter {
 public:
  Converter(const Reader& reader, Lines* lines) : reader_(reader), lines_(lines) {}

  json::value convert(const Node& node, const std::string& pointer) {
    if (lines_) (*lines_)[pointer] = node.line;
    switch (node.kind) {
      case Node::Kind::null: return nullptr;
      case Node::Kind::scalar: return scalar(node);
      case Node::Kind::list: return list(node, pointer);
      case Node::Kind::map: return map(node, pointer);
    }
    return nullptr;
  }

 private:
  json::value list(const Node& node, const std::string& pointer) {
    json::array array;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      array.push_back(convert(node.items[i], pointer + "/" + std::to_string(i)));
    }
    return array;
  }

  json::value map(const Node& node, const std::string& pointer) {
    json::object object;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const Node& key = node.keys[i];
      if (key.kind != Node::Kind::scalar) {
        reader_.fail(key.line, "a key must be text");
      } else if (object.contains(key.text)) {
        reader_.fail(key.line, "'" + key.text + "' stands there twice");
      } else {
        object[key.text] = convert(node.items[i], pointer + "/" + pointer_part(key.text));
      }
    }
    return object;
  }

  const Reader& reader_;
  Lines* lines_;
};

}  // namespace

json::value to_json(const Reader& reader, const Node& node, Lines* lines) {
  return Converter{reader, lines}.convert(node, "");
}

std::string pointer_part(std::string_view key) {
  std::string part;
  for (const char c : key) {
    if (c == '~') {
      part += "~0";
    } else if (c == '/') {
      part += "~1";
    } else {
      part += c;
    }
  }
  return part;
}

}  // namespace tb::yaml
