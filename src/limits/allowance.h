// SPDX-License-Identifier: Apache-2.0
// How much one key, tenant or user may have.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace tb::limits {

// Things that happen: so many at once, and as many again in each window. 0: as many as they like.
struct Rate {
  std::uint64_t amount = 0;
  std::chrono::seconds window{60};
  bool operator==(const Rate&) const = default;
};

struct Allowance {
  Rate requests = {};
  Rate creations = {};          // of sessions
  Rate bytes = {};              // of bodies, both ways
  std::uint64_t sessions = 0;   // at a time; 0: as many as they like
  std::uint64_t processes = 0;  // the same
  bool operator==(const Allowance&) const = default;
};

// "requests=600/min,creations=30/min,bytes=10g/day,sessions=20,processes=100", each at most once;
// windows are s, min, h and day, sizes k, m, g and t. Throws Error{invalid} that says what is
// wrong.
Allowance parse_allowance(std::string_view text);
// The same, without what is not limited; parse_allowance() reads it.
std::string to_text(const Allowance& allowance);

}  // namespace tb::limits
