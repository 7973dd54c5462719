// SPDX-License-Identifier: Apache-2.0
// The settings of the audit log.
#include <charconv>
#include <sstream>

#include "audit/redactor.h"
#include "base/error.h"
#include "config.h"

namespace tb {
namespace {

std::string apply_log(Config& config, const std::string& value) {
  config.audit = value != "off";
  config.audit_dir = value == "on" || value == "off" ? "" : value;
  if (!value.empty() && (config.audit_dir.empty() || value.front() == '/')) return {};
  return "must be on, off, or the whole path of a directory";
}

// Bytes, or with a unit: 512k, 64m, 1g.
std::string apply_max_bytes(Config& config, const std::string& value) {
  std::uint64_t count = 0;
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, count);
  const std::string unit{end, last};
  unsigned shift = 0;
  if (unit == "k" || unit == "K") shift = 10;
  if (unit == "m" || unit == "M") shift = 20;
  if (unit == "g" || unit == "G") shift = 30;
  const bool known = error == std::errc{} && (unit.empty() || shift != 0);
  if (!known || count > (1ull << 40) >> shift || count << shift < 1 << 16) {
    return "must be a size from 64k to 1024g";
  }
  config.audit_max_bytes = Bytes{count << shift};
  return {};
}

std::string apply_keep(Config& config, const std::string& value) {
  unsigned count = 0;
  const char* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, count);
  if (error != std::errc{} || end != last || count > 1000) {
    return "must be a whole number from 0 to 1000";
  }
  config.audit_keep = count;
  return {};
}

std::string apply_redact(Config& config, const std::string& value) {
  std::istringstream words{value};
  config.audit_redact.clear();
  for (std::string word; words >> word;) config.audit_redact.push_back(word);
  try {
    const audit::Redactor good{config.audit_redact};
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

std::vector<Setting> audit_settings() {
  return {
      {"AUDIT_LOG", "on", "who did what, as lines of JSON: on, off, or a directory for it",
       apply_log},
      {"AUDIT_MAX_BYTES", "64m", "a file of it that is so large is set aside", apply_max_bytes},
      {"AUDIT_KEEP", "10", "so many files that were set aside are kept", apply_keep},
      {"AUDIT_REDACT", "(none)",
       "regular expressions with blanks between them; what they match in commands is left out",
       apply_redact},
  };
}

}  // namespace tb
