// SPDX-License-Identifier: Apache-2.0
// YAML files of an operator as values. Everything that is wrong with them is noted with file and
// line, so that one look shows all of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tb::yaml {

struct Node {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  int line = 0;             // counted from 1
  std::string text;         // of a scalar
  bool quoted = false;      // a scalar that is text, whatever it looks like
  std::vector<Node> keys;   // of a map; keys[i] belongs to items[i]
  std::vector<Node> items;  // of a list or a map

  const Node* find(std::string_view key) const;
};

class Problems {
 public:
  void add(const std::string& file, int line, const std::string& what);
  bool empty() const { return lines_.empty(); }
  const std::vector<std::string>& lines() const { return lines_; }  // "file:line: what"

 private:
  std::vector<std::string> lines_;
};

// One file. What is wrong goes to `problems`, which outlives it; a value is then empty.
class Reader {
 public:
  Reader(std::string file, Problems& problems) : file_(std::move(file)), problems_(problems) {}

  // A map, as all our files are; a key stands in a map once.
  std::optional<Node> parse(std::string_view yaml) const;
  void fail(int line, const std::string& what) const { problems_.add(file_, line, what); }
  const std::string& file() const { return file_; }

  // What each key of a map means; other keys are noted.
  struct Field {
    std::string_view key;
    std::function<void(const Node& value)> read;
  };
  void fields(const Node& map, const std::vector<Field>& known) const;

  std::string text(const std::string& key, const Node& node) const;
  bool truth(const std::string& key, const Node& node) const;
  std::optional<double> number(const std::string& key, const Node& node, double least,
                               double most) const;
  std::optional<std::uint64_t> whole(const std::string& key, const Node& node, std::uint64_t least,
                                     std::uint64_t most) const;
  std::vector<std::string> texts(const std::string& key, const Node& node) const;
  bool is_map(const std::string& key, const Node& node) const;

 private:
  std::string file_;
  Problems& problems_;
};

// "a, b and c".
std::string listed(const std::vector<std::string>& names);

}  // namespace tb::yaml
