// SPDX-License-Identifier: Apache-2.0
#include "code/execution.h"

namespace tb::code {
namespace {

// How many bytes at the end may be the beginning of a character.
std::size_t unfinished(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto c = static_cast<unsigned char>(text[text.size() - back]);
    if (c < 0x80) return 0;
    if (c < 0xc0) continue;  // within one
    const std::size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}

}  // namespace

std::string in_seconds(Milliseconds time) {
  std::string text = std::to_string(static_cast<double>(time.count()) / 1000);
  while (text.ends_with('0')) text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  return text + " s";
}

std::string WholeCharacters::add(std::string_view bytes) {
  std::string text = rest();
  text += bytes;
  const std::size_t half = unfinished(text);
  half_ = text.substr(text.size() - half);
  text.resize(text.size() - half);
  return text;
}

}  // namespace tb::code
