// SPDX-License-Identifier: Apache-2.0
// Bytes of programs as text that JSON can carry.
#pragma once

#include <string>
#include <string_view>

namespace tb {

// What is no valid UTF-8 becomes U+FFFD, one for each character that is cut off; valid text comes
// back as it was.
std::string to_utf8(std::string bytes);
bool is_utf8(std::string_view text);

}  // namespace tb
