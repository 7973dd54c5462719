// SPDX-License-Identifier: Apache-2.0
#include "e2b/json.h"

#include <charconv>

namespace tb::e2b {

std::optional<json::object> parse_object(std::string_view text) {
  boost::system::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) return std::nullopt;
  return std::move(value.as_object());
}

std::string text_of(const json::object& from, std::string_view name) {
  const json::value* found = from.if_contains(name);
  return found && found->is_string() ? std::string{found->as_string()} : std::string{};
}

std::int64_t number_of(const json::object& from, std::string_view name) {
  const json::value* found = from.if_contains(name);
  if (!found) return 0;
  if (found->is_int64()) return found->as_int64();
  std::int64_t number = 0;
  if (found->is_string()) {
    const std::string_view text = found->as_string();
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  return number;
}

bool flag_of(const json::object& from, std::string_view name) {
  const json::value* found = from.if_contains(name);
  return found && found->is_bool() && found->as_bool();
}

const json::object* object_of(const json::object& from, std::string_view name) {
  const json::value* found = from.if_contains(name);
  return found ? found->if_object() : nullptr;
}

std::string percent_encode(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out.push_back(c);
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out.push_back('%');
    out.push_back(kDigits[byte >> 4]);
    out.push_back(kDigits[byte & 15]);
  }
  return out;
}

}  // namespace tb::e2b
