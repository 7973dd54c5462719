// SPDX-License-Identifier: Apache-2.0
// base64url without padding (RFC 4648, 5), as tokens have it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tb::auth {

std::string base64url(std::string_view bytes);

// Only what base64url() writes: no padding, nothing between, no bits left over. Empty: it is not
// that.
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace tb::auth
