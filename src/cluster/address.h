// SPDX-License-Identifier: Apache-2.0
// Whom a request is meant for: the session or the thread that it names in its path, its query or
// the beginning of its body. All dialects name them in one of these ways.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace tb::cluster {

struct Addressee {
  std::string session;
  std::string thread;
  bool empty() const { return session.empty() && thread.empty(); }
};

// From the path and the query.
Addressee read_target(const http::Request& request);

// From the beginning of a body: JSON with "session_id" or "thread_id" at its top, or a form with
// such fields. Finds nothing in what is neither.
Addressee read_body(const http::Request& request, std::string_view begun);

// The headers by which a worker knows who asks, and by which name it was reached.
std::vector<http::Header> caller_of(const http::Request& request);

// What of them tells one caller from another; empty: nothing was shown.
std::string credentials_in(const std::vector<http::Header>& caller);

// Whether it makes a session, if it names none.
bool creates_session(const http::Request& request);

}  // namespace tb::cluster
