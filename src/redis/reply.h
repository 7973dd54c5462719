// SPDX-License-Identifier: Apache-2.0
// What Redis answers, as a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tb::redis {

struct Reply {
  enum class Type { nothing, text, number, list, error };
  Type type = Type::nothing;
  std::string text;  // of an error too
  std::int64_t number = 0;
  std::vector<Reply> list;

  bool is_error() const { return type == Type::error; }
  bool is_nothing() const { return type == Type::nothing; }
  // The text of an item, or empty when there is none.
  const std::string& at(std::size_t index) const {
    static const std::string none;
    return index < list.size() ? list[index].text : none;
  }
};

}  // namespace tb::redis
