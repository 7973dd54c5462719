// SPDX-License-Identifier: Apache-2.0
// The beginning of a WebSocket (RFC 6455, 4): what a client asks with, and what it is answered.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace tb::http {

// Whether a comma-separated header, which may come several times, holds this token, in any case.
bool has_token(const Headers& headers, std::string_view name, std::string_view token);

// Whether the request asks for a WebSocket, rightly or wrongly.
bool wants_websocket(const Request& request);

// The response (101) that accepts the request. Of `protocols`, the first that the client offers
// is chosen; none when it offers no such. Throws HttpError: 426 when no WebSocket of version 13 is
// asked for, else 400.
Response accept_websocket(const Request& request, const std::vector<std::string>& protocols);

// Of a key, what Sec-WebSocket-Accept says.
std::string websocket_accept(std::string_view key);

}  // namespace tb::http
