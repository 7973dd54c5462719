// SPDX-License-Identifier: Apache-2.0
// How what is delivered is named.
#pragma once

#include <string>
#include <string_view>

namespace tb::hooks {

// Half of the SHA-256, in hex: the same for the same text, and for no other one.
std::string name_after(std::string_view text);

}  // namespace tb::hooks
