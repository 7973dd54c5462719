// SPDX-License-Identifier: Apache-2.0
// Who did what to which session, from where, and what came of it: one line of the audit log.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tb::audit {

using WallTime = std::chrono::system_clock::time_point;

struct Entry {
  WallTime at = {};
  std::string action;       // "POST /execute": the method and the pattern of the route
  int status = 0;           // 0: nobody was answered
  std::string result = {};  // empty: what the status says
  std::chrono::microseconds duration{0};
  std::string tenant = {};
  std::string key = {};  // the id of the key that was shown
  std::string role = {};
  std::string via = {};  // "session_token", if that was shown, made with the key
  std::string address = {};
  std::string forwarded = {};  // what a proxy says of it, which anybody can claim
  std::string session = {};
  std::string thread = {};
  std::string user = {};
  std::optional<std::string> command = {};
  std::string target = {};  // path and query, where no route has them
  std::string request = {};
};

// "ok", "refused" (4xx), "failed" (5xx) or "gone" (nobody was there to hear the answer).
std::string_view result_of(int status);

// One line of JSON with a newline at its end, whatever is in the texts: what is no UTF-8 is
// replaced, and everything that could end a line, move a cursor or turn the direction of a text is
// escaped. Long texts are cut.
std::string to_line(const Entry& entry, std::uint64_t number);

// A line of the log about itself.
std::string lost_line(WallTime at, std::uint64_t number, std::uint64_t count, std::string_view why);

}  // namespace tb::audit
