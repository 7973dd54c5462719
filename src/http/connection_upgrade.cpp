// SPDX-License-Identifier: Apache-2.0
// A connection that becomes a WebSocket, and its end as one.
#include <algorithm>
#include <boost/asio/this_coro.hpp>

#include "base/error.h"
#include "http/connection.h"
#include "http/websocket_handshake.h"

namespace tb::http {

awaitable<WebSocket*> Connection::upgrade(const WebSocketOptions& options) {
  if (sent_ != Sent::nothing) throw Error{Code::internal, "an upgrade of an answered request"};
  Response response = accept_websocket(request(), options.protocols);
  if (!parser_.body_done()) throw HttpError{400, "A request for a WebSocket has no body"};
  if (server_.draining) throw HttpError{503, "The server is going away"};
  for (const Header& header : options.headers) response.headers.push_back(header);

  HeadFraming framing = start_framing(response);
  framing.upgrade = true;
  out_.clear();
  append_head(out_, response, framing);
  const auto executor = co_await boost::asio::this_coro::executor;
  WebSocketChannel& channel = *this;
  websocket_ = std::make_unique<WebSocket>(executor, channel, WebSocket::Role::server, options);
  sent_ = Sent::all;
  const Pieces pieces{out_};
  co_await send(pieces);
  co_return websocket_.get();
}

awaitable<void> Connection::switch_protocols(Response head) {
  if (sent_ != Sent::nothing) throw Error{Code::internal, "an upgrade of an answered request"};
  HeadFraming framing = start_framing(head);
  framing.upgrade = true;
  out_.clear();
  append_head(out_, head, framing);
  sent_ = Sent::all;
  close_after_ = true;
  const Pieces pieces{out_};
  co_await send(pieces);
}

awaitable<std::size_t> Connection::receive_raw(std::span<char> out) {
  constexpr std::size_t kRoom = 64 << 10;
  if (buffer_.empty()) {
    const std::size_t got = co_await receive(kRoom, Clock::time_point::max());
    if (got == 0) co_return 0;
  }
  const std::size_t size = std::min(out.size(), buffer_.view().size());
  std::copy_n(buffer_.view().data(), size, out.data());
  buffer_.consume(size);
  co_return size;
}

awaitable<void> Connection::send_raw(std::string_view bytes) {
  const Pieces pieces{bytes};
  co_await send(pieces);
}

// After the handler. The rest is that of any connection whose input nobody reads to its end: say
// that it is over, and give the peer a moment to see it.
awaitable<void> Connection::close_websocket(bool failed) {
  broken_ = true;
  const int code = failed ? kCloseInternal : kCloseNormal;
  if (!abort_) co_await websocket_->close(code, {});
}

}  // namespace tb::http
