// SPDX-License-Identifier: Apache-2.0
// Feeds a schema and a value, a line each: what was accepted as a schema must be checkable, and a
// value that fits must still fit once its defaults are there.
#include <boost/json.hpp>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "registry/schema.h"

namespace json = boost::json;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  const std::size_t line = text.find('\n');
  if (line == text.npos) return 0;
  boost::system::error_code error;
  json::value document = json::parse(text.substr(0, line), error);
  if (error) return 0;
  json::value value = json::parse(text.substr(line + 1), error);
  if (error) return 0;
  std::vector<tb::registry::Schema::Problem> problems;
  const tb::registry::Schema schema{std::move(document), problems};
  if (!problems.empty() || !schema.check(value).empty()) return 0;
  const json::value filled = value;
  // Without alternatives, which may fit in another way once there are defaults.
  const bool plain = text.find("Of") == text.npos && text.find("ref") == text.npos;
  if (plain && (!schema.check(value).empty() || value != filled)) std::abort();
  return 0;
}
