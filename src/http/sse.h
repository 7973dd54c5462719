// SPDX-License-Identifier: Apache-2.0
// Server-sent events: a response that goes on, in the format that EventSource reads.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "http/exchange.h"

namespace tb::http {

// The bytes of one event. `name` and `id` are left out when empty; neither may hold a line break
// or NUL (Error{internal}). `data` may hold anything: a reader gets it back as it was, but CR and
// CR LF arrive as LF, and bytes that are no UTF-8 as U+FFFD; use base64 for those.
std::string format_event(std::string_view name, std::string_view id, std::string_view data);

// What a client that comes back has seen last: of its Last-Event-ID header, or, for clients that
// can't send one, of the parameter `last_event_id`. Empty when it says neither; HttpError 400 when
// it says it twice.
std::optional<std::string> parse_last_event_id(const Request& request);

// One writer. Each call goes out at once; a client that reads nothing makes write_stall pass, and
// Disconnected is thrown.
class EventStream {
 public:
  explicit EventStream(Exchange& exchange) : exchange_(exchange) {}

  // Sends the head, which tells caches and proxies to hold nothing back.
  awaitable<void> begin();
  awaitable<void> send(std::string_view name, std::string_view id, std::string_view data);
  // An empty line of comment: keeps proxies from ending a silent stream, and finds out whether
  // somebody is there. Every 15 seconds or so without an event is enough.
  awaitable<void> comment();
  awaitable<void> end();

 private:
  Exchange& exchange_;
};

}  // namespace tb::http
