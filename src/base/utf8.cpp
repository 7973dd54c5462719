// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace tb {
namespace {

struct Sequence {
  std::size_t length;  // of the character, or of the part of one that is cut off
  bool valid;
};

// What begins here: no overlong forms, no surrogates. Of a character that is cut off, as much as
// could have been one belongs together, as Unicode recommends and Python does.
Sequence sequence(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return {1, true};
  const std::size_t wanted = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return {1, false};
  for (std::size_t i = 1; i < wanted; ++i) {
    unsigned char least = 0x80;
    unsigned char most = 0xbf;
    if (i == 1 && first == 0xe0) least = 0xa0;
    if (i == 1 && first == 0xed) most = 0x9f;
    if (i == 1 && first == 0xf0) least = 0x90;
    if (i == 1 && first == 0xf4) most = 0x8f;
    if (i >= text.size() || at(i) < least || at(i) > most) return {i, false};
  }
  return {wanted, true};
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
    const Sequence next = sequence(text.substr(i));
    if (!next.valid) return i;
    i += next.length;
  }
  return i;
}

}  // namespace

bool is_utf8(std::string_view text) { return valid_prefix(text) == text.size(); }

std::string_view first_characters(std::string_view text, std::size_t count) {
  std::size_t end = 0;
  for (; count > 0 && end < text.size(); --count) end += sequence(text.substr(end)).length;
  return text.substr(0, end);
}

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
    rest.remove_prefix(sequence(rest).length);
    good = valid_prefix(rest);
  }
  return text;
}

}  // namespace tb
