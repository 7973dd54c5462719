// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace tb {
namespace {

// The length of the valid sequence that begins here, or 0. No overlong forms, no surrogates.
std::size_t sequence(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i) { return i < text.size() && (at(i) & 0xc0) == 0x80; };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    if (!follows(1) || !follows(2)) return 0;
    if (first == 0xe0 && at(1) < 0xa0) return 0;
    if (first == 0xed && at(1) > 0x9f) return 0;
    return 3;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (first == 0xf0 && at(1) < 0x90) return 0;
    if (first == 0xf4 && at(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

// Where the first invalid byte is; the size when there is none.
std::size_t valid_prefix(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    std::uint64_t word;
    while (i + 8 <= text.size()) {  // plain ASCII, eight at a time
      std::memcpy(&word, text.data() + i, 8);
      if (word & 0x8080808080808080ull) break;
      i += 8;
    }
    if (i >= text.size()) break;
    const std::size_t n = sequence(text.substr(i));
    if (n == 0) return i;
    i += n;
  }
  return i;
}

}  // namespace

bool is_utf8(std::string_view text) { return valid_prefix(text) == text.size(); }

std::string to_utf8(std::string bytes) {
  std::size_t good = valid_prefix(bytes);
  if (good == bytes.size()) return bytes;
  std::string text;
  text.reserve(bytes.size() + 64);
  std::string_view rest = bytes;
  while (!rest.empty()) {
    text.append(rest.substr(0, good));
    rest.remove_prefix(good);
    if (rest.empty()) break;
    text += "\xef\xbf\xbd";
    rest.remove_prefix(1);
    good = valid_prefix(rest);
  }
  return text;
}

}  // namespace tb
