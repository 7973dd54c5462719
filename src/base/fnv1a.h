// SPDX-License-Identifier: Apache-2.0
// FNV-1a: short and always the same, for names and against accidents; no guard against intent.
#pragma once

#include <cstdint>
#include <string_view>

namespace tb {

inline std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t sum = 0xcbf29ce484222325;
  for (const char c : text) sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return sum;
}

}  // namespace tb
