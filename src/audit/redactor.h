// SPDX-License-Identifier: Apache-2.0
// What an operator does not want to have in the audit log.
#pragma once

#include <string>
#include <vector>

#include "match/regex.h"

namespace tb::audit {

class Redactor {
 public:
  static constexpr std::string_view kInstead = "[redacted]";

  Redactor() = default;
  // Expressions as match/regex.h has them. Throws Error{invalid} that names a wrong one.
  explicit Redactor(const std::vector<std::string>& patterns);

  // Each part that one of them matches, as early and as long as it does, is replaced.
  std::string redact(std::string text);

 private:
  std::vector<match::Regex> patterns_;
};

}  // namespace tb::audit
