// SPDX-License-Identifier: Apache-2.0
// The character classes of RFC 9110 and 9112, as tables.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace tb::http {

using CharTable = std::array<bool, 256>;

constexpr CharTable make_table(std::string_view extra, bool letters_and_digits) {
  CharTable table{};
  for (const char c : extra) table[static_cast<unsigned char>(c)] = true;
  for (int c = 0; letters_and_digits && c < 128; ++c) {
    if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) table[c] = true;
  }
  return table;
}

constexpr CharTable make_range(int first, int last, std::string_view extra = {}) {
  CharTable table = make_table(extra, false);
  for (int c = first; c <= last; ++c) table[c] = true;
  return table;
}

inline constexpr CharTable kTokenChars = make_table("!#$%&'*+-.^_`|~", true);
inline constexpr CharTable kHostChars = make_table(".-_:[]", true);
inline constexpr CharTable kTargetChars = make_range(0x21, 0x7e);
inline constexpr CharTable kPrintableChars = make_range(0x20, 0x7e);
// Field values: HTAB, space, visible ASCII, and the bytes above it (obs-text), but no 0x7f.
inline constexpr CharTable kValueChars = [] {
  CharTable table = make_range(0x20, 0xff, "\t");
  table[0x7f] = false;
  return table;
}();

constexpr bool in(const CharTable& table, char c) { return table[static_cast<unsigned char>(c)]; }

constexpr bool all_in(const CharTable& table, std::string_view text) {
  return std::all_of(text.begin(), text.end(), [&](char c) { return in(table, c); });
}

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The value of a hexadecimal digit, or -1.
constexpr int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace tb::http
