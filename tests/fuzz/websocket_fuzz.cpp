// SPDX-License-Identifier: Apache-2.0
// Feeds bytes to the parser of WebSocket frames, whole and in pieces: both must tell the same, and
// no message may pass the limit. What was accepted goes through a second parser as one frame each,
// written by us, and must come back as it was.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "http/websocket_parser.h"

namespace {

using tb::http::Opcode;
using tb::http::WebSocketParser;
using Kind = WebSocketParser::Kind;
using Sender = WebSocketParser::Sender;

constexpr WebSocketParser::Limits kLimits{.message = 3000, .fragments = 20};

// All events of `bytes`, which come `piece` bytes at a time.
std::vector<WebSocketParser::Event> parse(std::string_view bytes, Sender sender,
                                          std::size_t piece) {
  WebSocketParser parser{sender, kLimits};
  std::vector<WebSocketParser::Event> events;
  while (!bytes.empty()) {
    std::string_view part = bytes.substr(0, piece);
    bytes.remove_prefix(part.size());
    for (;;) {
      WebSocketParser::Event event;
      const std::size_t used = parser.parse(part, event);
      if (used > part.size()) std::abort();
      part.remove_prefix(used);
      if (event.kind == Kind::none) break;
      events.push_back(event);
    }
    const bool over = !events.empty() &&
                      (events.back().kind == Kind::close || events.back().kind == Kind::violation);
    if (!part.empty() && !over) std::abort();
    if (over) break;
  }
  return events;
}

void check_event(const WebSocketParser::Event& event) {
  const std::string& data = event.data;
  if (data.size() > kLimits.message) std::abort();
  const bool control = event.kind != Kind::text && event.kind != Kind::binary;
  if (control && data.size() > 125) std::abort();
  if ((event.kind == Kind::text || event.kind == Kind::close) && !tb::is_utf8(data)) std::abort();
  const bool coded = event.kind == Kind::close || event.kind == Kind::violation;
  if (coded && event.code != tb::http::kCloseNoCode && !tb::http::is_close_code(event.code)) {
    std::abort();
  }
}

// As the other side would have sent it.
std::string frame_of(const WebSocketParser::Event& event, Sender sender) {
  static constexpr Opcode kOpcodes[] = {Opcode::continuation, Opcode::text, Opcode::binary,
                                        Opcode::ping,         Opcode::pong, Opcode::close};
  std::string payload = event.data;
  if (event.kind == Kind::close && event.code != tb::http::kCloseNoCode) {
    payload.insert(0, {static_cast<char>(event.code >> 8), static_cast<char>(event.code)});
  }
  const tb::http::Mask mask{'\x01', '\xfe', '\x80', 'x'};
  const bool masked = sender == Sender::client;
  if (masked) tb::http::apply_mask(payload.data(), payload.size(), mask);
  const tb::http::FrameHead head{kOpcodes[static_cast<int>(event.kind)], payload.size(),
                                 masked ? std::optional{mask} : std::nullopt};
  return std::string{head.view()} + payload;
}

bool same(const std::vector<WebSocketParser::Event>& a,
          const std::vector<WebSocketParser::Event>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.kind == y.kind && x.code == y.code && x.data == y.data;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Sender sender = (data[0] & 1) != 0 ? Sender::client : Sender::server;
  const std::size_t piece = 1 + (data[0] >> 1) % 16;
  const std::string_view bytes{reinterpret_cast<const char*>(data) + 1, size - 1};
  auto events = parse(bytes, sender, bytes.size());
  if (!same(events, parse(bytes, sender, piece))) std::abort();
  for (const auto& event : events) check_event(event);

  if (!events.empty() && events.back().kind == Kind::violation) events.pop_back();
  std::string again;
  for (const auto& event : events) again += frame_of(event, sender);
  if (!same(events, parse(again, sender, 7))) std::abort();
  return 0;
}
