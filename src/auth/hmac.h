// SPDX-License-Identifier: Apache-2.0
// What both ends of a secret can reckon, and nobody else.
#pragma once

#include <string>
#include <string_view>

namespace tb::auth {

// 32 bytes (RFC 2104).
std::string hmac_sha256(std::string_view key, std::string_view text);

// Takes the same time wherever they differ.
bool same_bytes(std::string_view a, std::string_view b);

}  // namespace tb::auth
