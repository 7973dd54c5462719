// SPDX-License-Identifier: Apache-2.0
// For tests: WebSocket frames as bytes, good and bad.
#pragma once

#include <string>
#include <string_view>

#include "http/websocket_parser.h"

namespace tb::http {

// As clients send them.
inline std::string masked(Opcode opcode, std::string_view payload, bool last = true) {
  const Mask mask{'m', '\xa5', '\0', '\xff'};
  std::string bytes{FrameHead{opcode, payload.size(), mask, last}.view()};
  std::string body{payload};
  apply_mask(body.data(), body.size(), mask);
  return bytes + body;
}

// As servers send them.
inline std::string unmasked(Opcode opcode, std::string_view payload, bool last = true) {
  return std::string{FrameHead{opcode, payload.size(), std::nullopt, last}.view()}.append(payload);
}

inline std::string close_payload(int code, std::string_view reason = {}) {
  const std::string bytes{static_cast<char>(code >> 8), static_cast<char>(code)};
  return bytes + std::string{reason};
}

}  // namespace tb::http
