// SPDX-License-Identifier: Apache-2.0
// Looking into the audit log: backwards from its newest line, a bounded part of it at a time.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "audit/entry.h"
#include "base/units.h"

namespace tb::audit {

// All that is said must hold.
struct Query {
  std::optional<std::string> session = {};
  std::optional<std::string> tenant = {};
  std::optional<std::string> action = {};  // all of it, or its path alone
  std::optional<std::string> result = {};
  std::optional<WallTime> since = {};
  std::optional<WallTime> until = {};
  std::optional<std::uint64_t> before = {};  // lines of a smaller number
  std::size_t limit = 100;
  Bytes most = 64_MiB;  // that are looked at
};

struct Page {
  std::vector<boost::json::object> entries;  // the newest first
  // Where the next page begins, as `before`; empty: that was all.
  std::optional<std::uint64_t> next = {};
};

// Waits for the disk. A line that is torn is passed over; a file that is renamed meanwhile is found
// under its new name.
Page read_back(const std::string& dir, unsigned keep, const Query& query);

}  // namespace tb::audit
