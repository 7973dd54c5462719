// SPDX-License-Identifier: Apache-2.0
// SHA-1 (FIPS 180-4), which the handshake of WebSocket asks for. It protects nothing any more: use
// base/sha256.h wherever somebody might want a collision.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tb {

std::array<std::uint8_t, 20> sha1(std::string_view text);

}  // namespace tb
