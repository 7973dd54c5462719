// SPDX-License-Identifier: Apache-2.0
#include "hooks/backoff.h"

#include <algorithm>
#include <charconv>
#include <ctime>
#include <string>

namespace tb::hooks {
namespace {

using std::chrono::seconds;

constexpr double kSpread = 0.2;
constexpr seconds kPatience = 1h;  // with what receivers ask for

}  // namespace

Schedule usual_schedule() { return {5s, 30s, 2min, 10min, 30min, 2h, 5h}; }

std::optional<Milliseconds> delay_after(const Schedule& schedule, unsigned failures, double chance,
                                        std::optional<seconds> retry_after) {
  if (failures == 0 || failures > schedule.size()) return std::nullopt;
  const double factor = 1 - kSpread / 2 + kSpread * std::clamp(chance, 0.0, 1.0);
  const std::chrono::duration<double> base = schedule[failures - 1];
  auto delay = std::chrono::duration_cast<Milliseconds>(base * factor);
  if (retry_after) {
    const seconds longest = *std::max_element(schedule.begin(), schedule.end());
    const seconds asked = std::min(*retry_after, std::max(kPatience, longest));
    delay = std::max(delay, Milliseconds{asked});
  }
  return delay;
}

std::optional<seconds> parse_retry_after(std::string_view text,
                                         std::chrono::system_clock::time_point now) {
  constexpr std::int64_t kMost = 1ll << 32;
  std::int64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error == std::errc{} && end == last) {
    if (number < 0) return std::nullopt;
    return seconds{std::min(number, kMost)};
  }
  std::tm parts{};
  const std::string date{text};
  const char* const rest = ::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (!rest || *rest) return std::nullopt;
  // In seconds: the nanoseconds of the clock end in the year 2262.
  const seconds when{::timegm(&parts)};
  return std::max(seconds{0}, when - std::chrono::floor<seconds>(now.time_since_epoch()));
}

}  // namespace tb::hooks
