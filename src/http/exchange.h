// SPDX-License-Identifier: Apache-2.0
// One request and its response, as the handler sees them. An interface, so that a handler can be
// tested without a socket.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "http/message.h"

namespace tb::http {

using boost::asio::awaitable;

// The other end went away, or moved no byte until a deadline: there is nobody left to answer.
// Let it pass; the server ends the connection without a word and without a log line.
class Disconnected : public std::exception {
 public:
  const char* what() const noexcept override { return "the peer went away"; }
};

class WebSocket;
struct WebSocketOptions;

// Moves bytes from `offset` on, at most `most`, to a socket that does not block: how many, 0 when
// it takes none now, empty when no more can be moved.
using Send = std::function<awaitable<std::optional<std::size_t>>(int socket, std::uint64_t offset,
                                                                 std::uint64_t most)>;

// Lives until the handler returns. One thread. Reading and writing may go on at the same time in
// two coroutines, but never two reads or two writes.
//
// Answer with respond(), or with begin(), write()..., end(). A handler that answers nothing gets
// a 500 sent for it; one that leaves a begun response unfinished gets the connection closed, so
// the client can tell. g++ 12: name the Response, then std::move it into the co_await.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;

  // What Content-Length promised (0: no body); empty when the body is chunked.
  virtual std::optional<std::uint64_t> body_length() const = 0;

  // Reads the next bytes of the body into `out` (not empty); 0 at its end. The first call sends
  // "100 Continue" if the client waits for that. Throws HttpError 400 on bad framing or a body cut
  // short, 408 when the body trickles too slowly.
  virtual awaitable<std::size_t> read_some(std::span<char> out) = 0;

  // Reads what is left of the body. Throws as read_some does, and HttpError 413 when it is more
  // than `limit`, without reading it when Content-Length says so.
  awaitable<std::string> read_body(Bytes limit);

  // Sends a whole response. What the handler left unread of the body is thrown away, or the
  // connection ends if that would be much.
  virtual awaitable<void> respond(Response response) = 0;

  // Sends the head (`head.body` must be empty) of a response whose body follows by write():
  // exactly `length` bytes, or as many as come until end() (chunked; HTTP/1.0: until the close).
  // write() returns when the kernel took the bytes, so a slow reader slows the writer down; each
  // call goes out at once. A body for HEAD, 204 or 304 is counted but not sent.
  virtual awaitable<void> begin(Response head, std::optional<std::uint64_t> length) = 0;
  virtual awaitable<void> write(std::string_view bytes) = 0;
  virtual awaitable<void> end() = 0;
  // A write() of at most `size` bytes that `send` moves to the socket by itself, where they may go
  // as they are. Returns how many went; the others are for write().
  virtual awaitable<std::uint64_t> write_by(const Send& send, std::uint64_t size);

  // Answers with 101 if the request asks for a WebSocket, rightly, and has no body; else throws
  // the HttpError that says what is missing. The WebSocket lives as long as the exchange; when the
  // handler returns without a close, it is closed with 1000, and with 1011 when the handler throws.
  // Check the page that asks first: http/origin.h.
  virtual awaitable<WebSocket*> upgrade(const WebSocketOptions& options);

  // Answers with a 101 that another server gave. From then on bytes are passed as they are,
  // whatever they mean: 0 when the peer has no more to say. Who is not a connection can't.
  virtual awaitable<void> switch_protocols(Response head);
  virtual awaitable<std::size_t> receive_raw(std::span<char> out);
  virtual awaitable<void> send_raw(std::string_view bytes);

  // Bytes of this exchange that came and went, as far as it has got.
  virtual std::uint64_t transferred() const { return 0; }

  // True once respond(), begin() or upgrade() has answered.
  virtual bool answered() const = 0;

  // Goes out with the response of this exchange, whoever writes that.
  void add_response_header(std::string name, std::string value);

  // True once the peer has closed its side or the connection broke. A client may rightly close
  // its sending side and still wait for the answer, so this is a hint for work worth dropping.
  virtual bool peer_closed() const = 0;

  // Ends the connection as if the peer had gone: what waits for it hears so.
  virtual void cut() {}

  // Calls `callback` as soon as peer_closed() has become true, and once more when the connection
  // breaks after that; never after the handler returned. Whether a client that closed its side is
  // gone is found out by writing: if it is, the connection breaks. While further requests wait in
  // the connection, the server's tick notices it, about a second late. Replaces an earlier
  // callback; empty removes it.
  virtual void on_peer_closed(std::function<void()> callback) = 0;

 protected:
  std::vector<Header> added_headers_;
};

}  // namespace tb::http
