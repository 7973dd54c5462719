// SPDX-License-Identifier: Apache-2.0
// Characters of names and patterns: UTF-8, and whatever else the bytes are. No exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tb::match {

// A byte that belongs to no character is one of its own, beyond Unicode.
constexpr char32_t kBrokenByte = 0x110000;

inline char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(at);
  const int more = first < 0x80 ? 0 : first < 0xc2 ? -1 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  if (more == 0) return ++at, first;
  if (more < 0) return ++at, kBrokenByte + first;
  char32_t value = first & (0x3fu >> more);
  bool whole = first < 0xf5;
  for (int i = 1; whole && i <= more; ++i) {
    const unsigned next = byte(at + static_cast<std::size_t>(i));
    whole = (next & 0xc0) == 0x80;
    value = (value << 6) | (next & 0x3f);
  }
  constexpr char32_t kLeast[] = {0, 0x80, 0x800, 0x10000};
  if (!whole || value < kLeast[more] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) {
    return ++at, kBrokenByte + first;
  }
  at += static_cast<std::size_t>(more) + 1;
  return value;
}

inline std::string encode_character(char32_t c) {
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3f)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xc0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xe0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

struct CharacterRange {
  char32_t first = 0;
  char32_t last = 0;
};

inline bool contains(const std::vector<CharacterRange>& ranges, char32_t c) {
  for (const CharacterRange& range : ranges) {
    if (c >= range.first && c <= range.last) return true;
  }
  return false;
}

}  // namespace tb::match
