// SPDX-License-Identifier: Apache-2.0
#include "base/id.h"

#include <sys/random.h>

#include "base/error.h"
#include "base/hex.h"

namespace tb {

std::string make_uuid() {
  unsigned char bytes[16];
  TB_ASSERT(::getrandom(bytes, sizeof bytes, 0) == sizeof bytes);
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string text = to_hex(bytes);
  for (const std::size_t at : {8, 13, 18, 23}) text.insert(at, 1, '-');
  return text;
}

}  // namespace tb
