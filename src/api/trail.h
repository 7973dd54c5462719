// SPDX-License-Identifier: Apache-2.0
// From requests, and from what happens to sessions because of them, to the audit log.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>

#include "api/recorder.h"
#include "audit/log.h"
#include "session/listener.h"

namespace tb::api {

class Trail : public Recorder, public session::Listener {
 public:
  explicit Trail(audit::Log& log) : log_(log) {}

  void began(const http::Request& request) override;
  void ended(Asked& asked) override;
  void opening(const Asked& asked) override;

  // What ends by itself is nobody's request.
  bool wants(session::Happening what) const override {
    return what == session::Happening::session_expired;
  }
  void happened(const session::Told& told) override;
  void about(const session::Who& who) override;
  void asked_for(const session::Who& who, std::string_view command) override;

 private:
  struct Note {
    std::string session = {};
    std::string thread = {};
    std::string user = {};
    std::optional<std::string> command = {};
  };
  Note* find(const session::Who& who);

  audit::Log& log_;
  // By the place of its id in memory: a client may send an id that another request has.
  std::unordered_map<const char*, Note> open_;
};

}  // namespace tb::api
