// SPDX-License-Identifier: Apache-2.0
// One connection of the server: reads a request, has it handled, sends the response, and again.
#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http/exchange.h"
#include "http/parser.h"
#include "http/read_buffer.h"
#include "http/request_id.h"
#include "http/secure_layer.h"
#include "http/serialize.h"
#include "http/server.h"
#include "http/websocket.h"

namespace tb::http {

// What the server tells all of its connections.
struct ServerState {
  ServerLimits limits;
  Handler handler;
  OnFailure on_failure;
  RequestIds ids;
  std::string date;       // For the Date header; renewed by the tick.
  std::string hsts;       // Strict-Transport-Security of secured connections; may be empty.
  bool draining = false;  // No further request on any connection.
  bool closing = false;   // Coroutines are being cancelled.
};

// Pipelined requests wait in the read buffer and in the kernel: one at a time is taken, so the
// order of the responses is that of the requests and the queue is bounded.
class Connection final : public Exchange, private WebSocketChannel {
 public:
  // Owns `fd`, a connected socket that does not block. `layer` may be null.
  Connection(boost::asio::any_io_executor executor, int fd, std::string peer, ServerState& server,
             std::unique_ptr<SecureLayer> layer);

  // Runs until the connection has ended; throws nothing.
  awaitable<void> serve();

  // Ends waits whose deadline has passed; called by the server now and then.
  void tick(Clock::time_point now);

  // Ends the connection if it is between two requests, and a WebSocket; the server's state says
  // `draining`.
  void drain();

  const Request& request() const override { return parser_.request(); }
  std::optional<std::uint64_t> body_length() const override { return parser_.body_length(); }
  awaitable<std::size_t> read_some(std::span<char> out) override;
  awaitable<void> respond(Response response) override;
  awaitable<void> begin(Response head, std::optional<std::uint64_t> length) override;
  awaitable<void> write(std::string_view bytes) override;
  awaitable<void> end() override;
  awaitable<std::uint64_t> write_by(const Send& send, std::uint64_t size) override;
  awaitable<WebSocket*> upgrade(const WebSocketOptions& options) override;
  awaitable<void> switch_protocols(Response head) override;
  awaitable<std::size_t> receive_raw(std::span<char> out) override;
  awaitable<void> send_raw(std::string_view bytes) override;
  std::uint64_t transferred() const override { return transferred_; }
  bool answered() const override { return sent_ != Sent::nothing; }
  bool peer_closed() const override;
  void on_peer_closed(std::function<void()> callback) override;
  void cut() override;

 private:
  // How far the response of this exchange has come.
  enum class Sent { nothing, part, all };
  enum class Peer { there, closed, broken };
  // What a wait is for; has its own deadline each, since a read and a write may wait at once.
  struct Wait {
    Clock::time_point deadline = Clock::time_point::max();
    bool expired = false;
    bool disturbed = false;  // The wait was ended for the sake of another one: go on.
  };

  awaitable<void> serve_all();
  awaitable<bool> serve_one();
  awaitable<bool> open_layer();
  awaitable<bool> wait_for(SecureLayer::Step step);
  awaitable<void> answer_plainly();
  awaitable<std::size_t> receive_secure(std::span<char> room);
  void close_layer();
  awaitable<bool> read_head();
  ReadBuffer& input() override { return buffer_; }
  awaitable<std::size_t> receive(std::size_t buffer_limit, Clock::time_point deadline) override;
  bool expired() const override { return reading_.expired; }
  bool draining() const override { return server_.draining; }
  awaitable<std::size_t> fill(std::span<char> room, bool buffered, Clock::time_point deadline);
  awaitable<std::size_t> receive_body(std::span<char> direct);
  awaitable<void> send(Pieces pieces);
  awaitable<void> finish_sending(Pieces pieces) override;
  awaitable<void> send_file(FileBytes bytes) override;
  awaitable<void> wait_writable();
  awaitable<void> close_websocket(bool failed);
  awaitable<void> skip_body();
  awaitable<void> linger();

  void reset();
  std::size_t take_body(std::span<char> out);
  std::span<char> room_for_body(std::span<char> out) const;
  bool count_body(std::uint64_t size);
  bool push(Pieces& pieces) override;
  bool push_bytes(FileBytes& bytes);
  void look_at_reader(Clock::time_point now);
  void end_wait(Wait& wait);
  Peer look_at_peer() const;
  bool tell_of_peer();
  void watch_peer();
  bool discard_buffered_body();
  bool body_can_be_skipped();
  HeadFraming start_framing(const Response& response);
  void start_head(const Response& response, std::optional<std::uint64_t> length, bool reusable);
  void check_answered() const;
  Response refuse(std::exception_ptr failure);
  void tell_failure(std::exception_ptr failure) const;

  boost::asio::posix::stream_descriptor socket_;
  ServerState& server_;
  std::unique_ptr<SecureLayer> layer_;  // Null: bytes travel as they are.
  RequestParser parser_;
  ReadBuffer buffer_;
  std::string out_;
  std::function<void()> on_peer_closed_;
  Peer peer_told_ = Peer::there;  // what its callback knows
  bool peer_watched_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // for who may be called too late
  Wait reading_;
  Wait writing_;
  std::size_t unsent_ = 0;  // what the peer had not got when writing_'s time began

  // Of the connection:
  bool first_ = true;    // No request has been read yet.
  bool idle_ = false;    // Waiting for the first byte of a request.
  bool broken_ = false;  // The input can't be read on: end after the response.
  bool abort_ = false;   // End with a reset: the peer takes nothing any more.

  // Of the exchange:
  Sent sent_ = Sent::nothing;
  std::unique_ptr<WebSocket> websocket_;  // The exchange was upgraded: the connection's last one.
  bool close_after_ = false;
  bool continue_sent_ = false;
  bool out_chunked_ = false;
  bool out_has_body_ = false;              // False for HEAD, 204 and 304.
  std::optional<std::uint64_t> out_left_;  // Of a response with a length.
  std::uint64_t transferred_ = 0;
  std::uint64_t body_window_ = 0;  // Body bytes since `body_waited_` was zero.
  Clock::duration body_waited_{};
};

}  // namespace tb::http
