// SPDX-License-Identifier: Apache-2.0
#include "base/json_text.h"

#include <array>
#include <cstdint>
#include <cstring>

namespace tb {
namespace {

// What follows the backslash; 0: the character stands for itself.
constexpr std::array<char, 256> make_escapes() {
  std::array<char, 256> table{};
  for (int c = 0; c < 0x20; ++c) table[static_cast<std::size_t>(c)] = 'u';
  table['\b'] = 'b';
  table['\t'] = 't';
  table['\n'] = 'n';
  table['\f'] = 'f';
  table['\r'] = 'r';
  table['"'] = '"';
  table['\\'] = '\\';
  return table;
}
constexpr std::array<char, 256> kEscapes = make_escapes();

// Whether one of eight bytes has to be escaped; it may say so wrongly, then they are looked at.
bool suspicious(std::uint64_t word) {
  constexpr std::uint64_t kOnes = 0x0101010101010101u;
  constexpr std::uint64_t kHigh = 0x8080808080808080u;
  const auto has_zero = [](std::uint64_t x) { return (x - kOnes) & ~x & kHigh; };
  const std::uint64_t control = (word - kOnes * 0x20) & ~word & kHigh;
  return (control | has_zero(word ^ (kOnes * '"')) | has_zero(word ^ (kOnes * '\\'))) != 0;
}

// How many bytes from the beginning stand for themselves.
std::size_t plain_prefix(std::string_view text) {
  std::size_t i = 0;
  for (std::uint64_t word; i + 8 <= text.size(); i += 8) {
    std::memcpy(&word, text.data() + i, 8);
    if (suspicious(word)) break;
  }
  while (i < text.size() && !kEscapes[static_cast<unsigned char>(text[i])]) ++i;
  return i;
}

}  // namespace

void append_json(std::string& out, std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  out += '"';
  for (;;) {
    const std::size_t plain = plain_prefix(text);
    out.append(text.substr(0, plain));
    if (plain == text.size()) break;
    const auto c = static_cast<unsigned char>(text[plain]);
    out += '\\';
    out += kEscapes[c];
    if (kEscapes[c] == 'u') out.append("00").append({kDigits[c >> 4], kDigits[c & 15]});
    text.remove_prefix(plain + 1);
  }
  out += '"';
}

}  // namespace tb
