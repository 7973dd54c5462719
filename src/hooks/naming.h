// SPDX-License-Identifier: Apache-2.0
// How what is delivered is named and dated.
#pragma once

#include <string>
#include <string_view>

#include "hooks/outbox.h"

namespace tb::hooks {

// Half of the SHA-256, in hex: the same for the same text, and for no other one.
std::string name_after(std::string_view text);
// "2026-11-15T10:09:33.120Z"
std::string iso8601(WallTime time);

}  // namespace tb::hooks
