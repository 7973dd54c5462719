// SPDX-License-Identifier: Apache-2.0
// Times as others read them, in UTC.
#pragma once

#include <chrono>
#include <string>

namespace tb {

// "2026-11-15T10:09:33Z"
std::string iso8601(std::chrono::system_clock::time_point time);
// "2026-11-15T10:09:33.120Z"
std::string iso8601_ms(std::chrono::system_clock::time_point time);

}  // namespace tb
