// SPDX-License-Identifier: Apache-2.0
// Bytes of programs as text that JSON can carry.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tb {

// What is no valid UTF-8 becomes U+FFFD, one for each character that is cut off; valid text comes
// back as it was.
std::string to_utf8(std::string bytes);
bool is_utf8(std::string_view text);
// The first so many characters, never half of one; a byte that belongs to none counts as one.
std::string_view first_characters(std::string_view text, std::size_t count);

}  // namespace tb
