// SPDX-License-Identifier: Apache-2.0
// For tests: a request that is upgraded to a WebSocket, without a socket.
#pragma once

#include <unistd.h>

#include <boost/asio/this_coro.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "http/test_exchange.h"
#include "http/websocket.h"
#include "http/websocket_handshake.h"

namespace tb::http {

// A peer that has sent all it will ever send, and takes everything.
class TestChannel final : public WebSocketChannel {
 public:
  explicit TestChannel(std::string_view incoming) {
    for (const char c : incoming) {
      buffer_.prepare(incoming.size())[0] = c;
      buffer_.commit(1);
    }
  }
  std::string sent;

  ReadBuffer& input() override { return buffer_; }
  awaitable<std::size_t> receive(std::size_t, Clock::time_point) override { co_return 0; }
  bool expired() const override { return false; }
  bool draining() const override { return false; }
  bool push(Pieces& pieces) override {
    for (const std::string_view piece : pieces) sent += piece;
    return true;
  }
  awaitable<void> finish_sending(Pieces) override { co_return; }
  awaitable<void> send_file(FileBytes bytes) override {
    std::string content(bytes.size, '\0');
    const ssize_t n =
        ::pread(bytes.file, content.data(), content.size(), static_cast<off_t>(bytes.offset));
    TB_ASSERT(n == static_cast<ssize_t>(content.size()));
    sent.append(bytes.head).append(content).append(bytes.tail);
    co_return;
  }

 private:
  ReadBuffer buffer_;
};

// `frames` (test_frames.h) are what the client sends; after them it is gone.
class TestWebSocketExchange : public TestExchange {
 public:
  TestWebSocketExchange(std::string target, std::string_view frames)
      : TestExchange("GET", std::move(target)), channel_(frames) {
    add_header("Upgrade", "websocket");
    add_header("Connection", "Upgrade");
    add_header("Sec-WebSocket-Version", "13");
    add_header("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
  }
  // The frames that the client was sent.
  const std::string& sent() const { return channel_.sent; }

  awaitable<WebSocket*> upgrade(const WebSocketOptions& options) override {
    Response accepted = accept_websocket(request(), options.protocols);
    co_await respond(std::move(accepted));
    const auto executor = co_await boost::asio::this_coro::executor;
    socket_ = std::make_unique<WebSocket>(executor, channel_, WebSocket::Role::server, options);
    co_return socket_.get();
  }

 private:
  TestChannel channel_;
  std::unique_ptr<WebSocket> socket_;
};

}  // namespace tb::http
