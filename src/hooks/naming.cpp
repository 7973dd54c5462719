// SPDX-License-Identifier: Apache-2.0
#include "hooks/naming.h"

#include <cstdio>
#include <ctime>

#include "base/sha256.h"

namespace tb::hooks {

std::string name_after(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  const auto digest = sha256(text);
  std::string hex;
  for (std::size_t i = 0; i < 16; ++i) {
    hex += kHex[digest[i] >> 4];
    hex += kHex[digest[i] & 15];
  }
  return hex;
}

std::string iso8601(WallTime time) {
  const auto ms = std::chrono::duration_cast<Milliseconds>(time.time_since_epoch()).count();
  const std::time_t whole = ms / 1000;
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  char text[40];
  const std::size_t size = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  std::snprintf(text + size, sizeof text - size, ".%03dZ", static_cast<int>(ms % 1000));
  return text;
}

}  // namespace tb::hooks
