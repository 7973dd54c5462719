// SPDX-License-Identifier: Apache-2.0
// SHA-256 (FIPS 180-4) of a text in memory, and base64 (RFC 4648) to write it down.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tb {

std::array<std::uint8_t, 32> sha256(std::string_view text);

std::string base64(std::string_view bytes);

// Only what base64() writes: the usual alphabet, padded, nothing between. Empty: it is not that.
std::optional<std::string> from_base64(std::string_view text);

// What a Content-Security-Policy and Subresource Integrity call it.
std::string sha256_base64(std::string_view text);

}  // namespace tb
