// SPDX-License-Identifier: Apache-2.0
// What keys, tenants and users of this server may have: the settings', or what a file says of them.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "config.h"
#include "limits/limiter.h"
#include "session/metrics.h"

namespace tb::cli {

// Lines of LIMITS_FILE: "tenant acme requests=6000/min,sessions=200", "key <id> …" or
// "user <tenant>/<user> …", where the default tenant is empty. # begins a comment.
using LimitsTable = std::map<std::pair<limits::Scope, std::string>, limits::Allowance>;
// Throws Error{invalid} with all lines that are wrong.
LimitsTable parse_limits(const std::string& text, const std::string& path);

class ServerQuotas {
 public:
  // Reads the file, with the rights that there are now. Throws Error{invalid}.
  explicit ServerQuotas(const Config& config);
  // Counts there what was refused.
  void count_in(session::Metrics& metrics);
  // As the file is now; if anything is wrong with it, as it was.
  void reload();
  limits::Limiter& limits() { return limiter_; }

 private:
  const std::string path_;
  LimitsTable table_;
  limits::Limiter limiter_;
};

}  // namespace tb::cli
