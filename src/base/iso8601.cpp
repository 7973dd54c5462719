// SPDX-License-Identifier: Apache-2.0
#include "base/iso8601.h"

#include <cstdio>
#include <ctime>

namespace tb {
namespace {

// Without the letter at its end.
std::string whole_seconds(std::time_t seconds) {
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char text[40];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts)};
}

}  // namespace

std::string iso8601(std::chrono::system_clock::time_point time) {
  return whole_seconds(std::chrono::system_clock::to_time_t(time)) + "Z";
}

std::string iso8601_ms(std::chrono::system_clock::time_point time) {
  using std::chrono::milliseconds;
  const auto ms = std::chrono::floor<milliseconds>(time.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(ms);
  char rest[8];
  std::snprintf(rest, sizeof rest, ".%03dZ", static_cast<int>((ms - seconds).count()));
  return whole_seconds(seconds.count()) + rest;
}

}  // namespace tb
