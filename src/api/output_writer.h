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

// What JSON carries: text, in which bytes that are no UTF-8 are replaced, or all bytes exactly.
enum class Encoding { text, base64 };
// Throws HttpError 400.
Encoding parse_encoding(const std::string& name);

// `offset`, `data`, and what else there is to say of it; `type` if it is not empty.
std::string render_piece(const Piece& piece, Encoding encoding, std::string_view type);

// While it lives, who follows finds out at once when the client is gone.
class PeerWatch {
 public:
  PeerWatch(asio::any_io_executor executor, http::Exchange& exchange)
      : exchange_(exchange), nudge_(executor) {
    exchange_.on_peer_closed([this] { nudge_(); });
  }
  ~PeerWatch() { exchange_.on_peer_closed(nullptr); }
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;
  Following following(Encoding encoding) {
    return {encoding == Encoding::text ? Cut::between_characters : Cut::anywhere, &nudge_};
  }

 private:
  http::Exchange& exchange_;
  Nudge nudge_;
};

class OutputWriter {
 public:
  OutputWriter(http::Exchange& exchange, Encoding encoding)
      : exchange_(exchange), encoding_(encoding) {
    if (wants_events(exchange.request())) events_.emplace(exchange);
  }
  awaitable<void> begin(const sandbox::Process& process);
  awaitable<void> write(const Piece& piece);
  // With how the process ended.
  awaitable<void> end(const sandbox::Process& process);

 private:
  awaitable<void> tell(const char* type, boost::json::object message);

  http::Exchange& exchange_;
  Encoding encoding_;
  std::optional<http::EventStream> events_;
};

}  // namespace tb::api
