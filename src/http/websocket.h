// SPDX-License-Identifier: Apache-2.0
// A WebSocket (RFC 6455) on a connection that has been upgraded.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "base/units.h"
#include "http/file_part.h"
#include "http/message.h"
#include "http/pieces.h"
#include "http/read_buffer.h"
#include "http/websocket_parser.h"

namespace tb::http {

using Clock = std::chrono::steady_clock;

struct WebSocketOptions {
  std::vector<std::string> protocols;  // The first one that the client offers is chosen.
  std::vector<Header> headers;         // Of the response that accepts.
  Bytes message{1 << 20};              // Of one message that comes. Beyond: closed with 1009.
  std::size_t controls = 100;          // Pings and pongs in a second. Beyond: closed with 1008.
  Milliseconds ping = 20s;             // Nothing came for so long: ask whether somebody is there,
  Milliseconds pong = 20s;             // and wait so long for an answer.
  Milliseconds close = 5s;             // From our close frame to the peer's.
};

// What a WebSocket reads from and writes to.
class WebSocketChannel {
 public:
  virtual ~WebSocketChannel() = default;
  virtual ReadBuffer& input() = 0;
  // Reads more into input(), which holds `limit` bytes at most. 0: the end of the input, a
  // failure, or, if expired() then says so, the deadline or the beginning of draining().
  virtual awaitable<std::size_t> receive(std::size_t limit, Clock::time_point deadline) = 0;
  virtual bool expired() const = 0;
  // Sends what the kernel takes at once; true when that was all. Throws Disconnected.
  virtual bool push(Pieces& pieces) = 0;
  // Sends the rest. Throws Disconnected, also when the peer takes no byte for too long.
  virtual awaitable<void> finish_sending(Pieces pieces) = 0;
  // Sends all of it. Throws as finish_sending does. Only a server has one.
  virtual awaitable<void> send_file(FileBytes bytes);
  // The server is about to end: WebSockets are to be closed with 1001.
  virtual bool draining() const = 0;
};

// One thread. One coroutine may receive while another sends; never two of a kind. Receive at all
// times, even if nothing is expected: pings are answered and sent, and the end is noticed, only
// while receive() waits. A coroutine that is cancelled while it sends may leave half a frame
// behind; then the connection is of no further use, and every call throws Disconnected.
class WebSocket {
 public:
  struct Message {
    bool text = false;  // Valid UTF-8.
    std::string data;
  };
  // How it ended. `by_peer`: its own wish; else ours, or an answer to what it may not send.
  struct Closed {
    int code = 0;
    std::string reason;
    bool by_peer = false;
  };
  enum class Role { server, client };

  // `channel` must outlive it.
  WebSocket(boost::asio::any_io_executor executor, WebSocketChannel& channel, Role role,
            const WebSocketOptions& options);
  WebSocket(const WebSocket&) = delete;
  WebSocket& operator=(const WebSocket&) = delete;

  // The next message; empty once it was closed, in an orderly way (closed() tells why). Throws
  // Disconnected when the peer went away without a word or does not answer pings.
  awaitable<std::optional<Message>> receive();

  // Return when the kernel has taken the message: a slow reader slows the sender down. Throw
  // Disconnected when the peer takes next to nothing for `write_stall`, and after a close.
  // `text` must be valid UTF-8; `bytes` must stay until the end.
  awaitable<void> send_text(std::string_view text);
  awaitable<void> send_binary(std::string_view bytes);
  // A binary message of a part of a file (its head and tail are ours). Not for clients, which have
  // to mask what they send.
  awaitable<void> send_binary_file(FileBytes bytes);

  // Sends a close frame, unless one was sent; messages that were under way may still be received.
  // A reason beyond 123 bytes is cut. The peer's answer is awaited by receive(), or after the
  // handler's end by the server.
  awaitable<void> close(int code, std::string_view reason);

  // Empty while it is open.
  const std::optional<Closed>& closed() const { return closed_; }

 private:
  class Turn;

  awaitable<void> handle(WebSocketParser::Event event);
  awaitable<void> wait_for_input();
  awaitable<void> answer_ping(std::string payload);
  awaitable<void> send_ping();
  awaitable<void> send(Opcode opcode, std::string_view payload);
  awaitable<void> send_due_pongs();
  awaitable<void> write_frame(Opcode opcode, std::string_view payload);
  bool too_many_controls();
  void set_closed(int code, std::string reason, bool by_peer);

  WebSocketChannel& channel_;
  Role role_;
  WebSocketOptions options_;
  WebSocketParser parser_;
  Signal free_;  // The turn to write is over.
  bool busy_ = false;
  bool torn_ = false;  // Half a frame has been sent, and the rest never will be.
  bool close_sent_ = false;
  bool ended_ = false;  // Nothing more is to be read.
  std::optional<Closed> closed_;

  // Waits for the end of a writer's turn. Of pings that came meanwhile only the last needs it.
  std::optional<std::string> pong_due_;

  Clock::time_point heard_;                  // When the last byte came.
  std::optional<Clock::time_point> pinged_;  // A ping of ours waits for any sign of life.
  Clock::time_point closing_since_;
  Clock::time_point controls_since_;
  std::size_t controls_ = 0;
};

}  // namespace tb::http
