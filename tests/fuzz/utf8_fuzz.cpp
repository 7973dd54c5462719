// SPDX-License-Identifier: Apache-2.0
// Whatever a program prints becomes valid UTF-8, and what is valid already stays as it is.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/utf8.h"

namespace {

// Bit by bit after RFC 3629, to compare with.
bool is_valid(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) {
      return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
    };
    const unsigned first = byte(i);
    const std::size_t size = first < 0x80           ? 1
                             : (first >> 5) == 0x06 ? 2
                             : (first >> 4) == 0x0e ? 3
                             : (first >> 3) == 0x1e ? 4
                                                    : 0;
    if (size == 0) return false;
    std::uint32_t point = size == 1 ? first : first & (0x7fu >> size);
    for (std::size_t next = 1; next < size; ++next) {
      if ((byte(i + next) >> 6) != 2) return false;
      point = point << 6 | (byte(i + next) & 0x3f);
    }
    constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (point < kLeast[size] || point > 0x10ffff) return false;
    if (point >= 0xd800 && point <= 0xdfff) return false;
    i += size;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes{reinterpret_cast<const char*>(data), size};
  if (tb::is_utf8(bytes) != is_valid(bytes)) std::abort();
  const std::string text = tb::to_utf8(bytes);
  if (!is_valid(text)) std::abort();
  if (is_valid(bytes) && text != bytes) std::abort();
  if (tb::to_utf8(text) != text) std::abort();
  return 0;
}
