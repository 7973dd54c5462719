// SPDX-License-Identifier: Apache-2.0
// Response heads to bytes, and whole requests of the client.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"

namespace tb::http {

// What the connection adds to a response: how its end is found, and whether it is the last one.
struct HeadFraming {
  std::optional<std::uint64_t> length;
  bool chunked = false;
  bool close = false;
  bool upgrade = false;     // Of a 101, which nothing else may send.
  bool keep_alive = false;  // Said only to HTTP/1.0, where closing is the custom.
  std::string_view date;
  std::string_view request_id;
  std::string_view hsts;          // Of Strict-Transport-Security; empty: none.
  std::span<const Header> added;  // Headers beside those of the response.
};

// 1xx, 204 and 304 end with their head.
bool status_has_body(int status);

// True when the handler asks for the end of the connection.
bool asks_to_close(const Response& response);

// Appends the head. Throws Error{internal} and appends nothing when a header could not be sent as
// it is: a name that is no token, a value with CR, LF or NUL, or one that is the server's to write.
void append_head(std::string& out, const Response& response, const HeadFraming& framing);

// Throws Error{invalid} when it may not be sent. Host and, where it belongs, Content-Length are
// added.
std::string serialize_request(std::string_view method, std::string_view target,
                              std::string_view host, const std::vector<Header>& headers,
                              std::string_view body);

// The same of one whose body, of `length` bytes, is sent afterwards.
std::string serialize_request_head(std::string_view method, std::string_view target,
                                   std::string_view host, const std::vector<Header>& headers,
                                   std::uint64_t length);

// "Sun, 06 Nov 1994 08:49:37 GMT"
std::string http_date(std::time_t when);

}  // namespace tb::http
