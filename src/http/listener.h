// SPDX-License-Identifier: Apache-2.0
// Opens the port that the server listens on.
#pragma once

#include <cstdint>
#include <string>

namespace tb::http {

// A bound, listening, non-blocking TCP socket; the caller owns it. `host` is an IPv4 or IPv6
// address or "localhost"; "::" takes IPv4 too. Port 0 takes any free one. Throws Error with words
// for the operator: which setting to change.
int bind_listener(const std::string& host, std::uint16_t port);

// The port that a socket is bound to.
std::uint16_t port_of(int fd);

}  // namespace tb::http
