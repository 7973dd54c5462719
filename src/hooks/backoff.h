// SPDX-License-Identifier: Apache-2.0
// When to try again.
#pragma once

#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace tb::hooks {

// After the first failure the first, and so on; after the last there is no more.
using Schedule = std::vector<std::chrono::seconds>;

// 5 s, 30 s, 2 min, 10 min, 30 min, 2 h, 5 h: almost 8 hours in all.
Schedule usual_schedule();

// How long to wait after the `failures`-th failure (from 1); empty: give up. `chance` (0 to 1)
// spreads what failed together over a fifth of the time around it. What a receiver asked for
// (`retry_after`) is waited for if it is longer, up to an hour, or the longest of the schedule.
std::optional<Milliseconds> delay_after(const Schedule& schedule, unsigned failures, double chance,
                                        std::optional<std::chrono::seconds> retry_after);

// Of a Retry-After header: seconds, or a date ("Sun, 06 Nov 1994 08:49:37 GMT"). Empty: neither.
std::optional<std::chrono::seconds> parse_retry_after(std::string_view text,
                                                      std::chrono::system_clock::time_point now);

}  // namespace tb::hooks
