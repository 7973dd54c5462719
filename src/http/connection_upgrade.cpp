// SPDX-License-Identifier: Apache-2.0
// A connection that becomes a WebSocket, and its end as one.
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

// After the handler. The rest is that of any connection whose input nobody reads to its end: say
// that it is over, and give the peer a moment to see it.
awaitable<void> Connection::close_websocket(bool failed) {
  broken_ = true;
  const int code = failed ? kCloseInternal : kCloseNormal;
  if (!abort_) co_await websocket_->close(code, {});
}

}  // namespace tb::http
