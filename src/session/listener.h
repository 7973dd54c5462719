// SPDX-License-Identifier: Apache-2.0
// Who wants to hear what happens to sessions, as it happens.
#pragma once

#include <array>
#include <boost/json.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "session/events.h"

namespace tb::session {

inline constexpr std::array<std::string_view, 8> kHappeningNames{
    "session.created", "session.expired", "session.closed", "command.finished",
    "command.failed",  "command.refused", "limit.exceeded", "artifact.kept"};

inline std::string_view name_of(Happening what) {
  return kHappeningNames[static_cast<std::size_t>(what)];
}
std::optional<Happening> find_happening(std::string_view name);

struct Told {
  Happening what;
  std::string tenant = {};
  std::string session = {};
  std::string thread = {};
  // The same for the same event, whoever sees it and in whichever server. Empty: nobody else will.
  std::string key = {};
  std::chrono::system_clock::time_point at;
  bool found = false;  // by a server that was not there: an earlier one may have told of it
  boost::json::object data = {};
};

// Called on the loop; must not wait.
class Listener {
 public:
  virtual ~Listener() = default;
  // Whether it is worth the work of telling.
  virtual bool wants(Happening what) const = 0;
  virtual void happened(const Told& told) = 0;

  // A request (who.request is its id where it lies in memory, while it is answered) is about this
  // session; it asked for this command, which may have been refused.
  virtual void about(const Who&) {}
  virtual void asked_for(const Who&, std::string_view /*command*/) {}
};

}  // namespace tb::session
