// SPDX-License-Identifier: Apache-2.0
// Bytes as hexadecimal digits, in lower case.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tb {

std::string to_hex(std::string_view bytes);
std::string to_hex(std::span<const std::uint8_t> bytes);

// Only what to_hex() writes. Empty: it is not that.
std::optional<std::string> from_hex(std::string_view text);

}  // namespace tb
