// SPDX-License-Identifier: Apache-2.0
// Who writes down what was asked of the server, by whom, and what it answered.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "auth/principal.h"
#include "http/message.h"

namespace tb::api {

// A request, as far as it has got.
struct Asked {
  const http::Request& request;
  std::string_view pattern = {};      // of its route; empty: no route has its path and method
  std::vector<std::string> captured;  // by the pattern
  auth::Principal principal = {};     // who asks, once that is known
  int status = 0;                     // 0: nobody was answered
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

class Recorder {
 public:
  virtual ~Recorder() = default;
  // Each has an end, whatever becomes of it.
  virtual void began(const http::Request& request) = 0;
  virtual void ended(Asked& asked) = 0;
  // It is let in, and may go on for days: a WebSocket.
  virtual void opening(const Asked& asked) { static_cast<void>(asked); }
};

}  // namespace tb::api
