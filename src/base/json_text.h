// SPDX-License-Identifier: Apache-2.0
// Text as a string of JSON, for those who write much of it.
#pragma once

#include <string>
#include <string_view>

namespace tb {

// Appends `text`, which must be valid UTF-8, with quotes around it.
void append_json(std::string& out, std::string_view text);

}  // namespace tb
