// SPDX-License-Identifier: Apache-2.0
// The output of a command as an answer that goes on: lines of JSON, or server-sent events for a
// client that accepts those.
#pragma once

#include <boost/json.hpp>
#include <optional>

#include "api/follow.h"
#include "http/sse.h"

namespace tb::api {

bool wants_events(const http::Request& request);

class OutputWriter {
 public:
  explicit OutputWriter(http::Exchange& exchange) : exchange_(exchange) {
    if (wants_events(exchange.request())) events_.emplace(exchange);
  }
  awaitable<void> begin(const sandbox::Process& process);
  awaitable<void> write(const Piece& piece);
  // With how the process ended.
  awaitable<void> end(const sandbox::Process& process);

 private:
  awaitable<void> tell(const char* type, boost::json::object message);

  http::Exchange& exchange_;
  std::optional<http::EventStream> events_;
};

}  // namespace tb::api
