// SPDX-License-Identifier: Apache-2.0
// How much, how many and how long the server puts up with.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/units.h"

namespace tb::http {

struct HeadLimits {
  std::size_t request_line = 8 << 10;  // Beyond: 414.
  std::size_t fields = 100;            // Beyond: 431.
  std::size_t total = 64 << 10;        // The whole head. Beyond: 431.
};

// Times are kept by one tick that walks the connections, so each may pass by a tick.
struct ServerLimits {
  HeadLimits head;
  std::size_t connections = 4096;           // Beyond: 503 and close.
  std::size_t connections_per_address = 0;  // The same; 0: no limit. A /64 of IPv6 is one address.
  Milliseconds handshake = 10s;             // Of TLS, from the accept to its end.
  Milliseconds header = 10s;       // From the first byte of a head (or the accept) to its end.
  Milliseconds body_idle = 30s;    // Waiting for the next `body_progress` bytes of a body.
  Bytes body_progress{1024};       // So one byte a second is no progress.
  Milliseconds keep_alive = 75s;   // Between two requests.
  Milliseconds write_stall = 30s;  // The peer takes hardly a byte of a response.
  Milliseconds linger = 2s;        // Reading on after an error, so that the client sees the answer;
  Milliseconds linger_most = 30s;  // for an upload that is well under way, this long.
  Milliseconds tick = 1s;
};

}  // namespace tb::http
