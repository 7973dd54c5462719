// SPDX-License-Identifier: Apache-2.0
// The client's side of a WebSocket, over TCP or a unix socket.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <vector>

#include "http/client.h"
#include "http/websocket.h"

namespace tb::http {

// One thread. Must outlive the use of its socket(); its end closes the connection at once, so
// close() the socket and receive() to the end before, if the server should know why.
class WebSocketClient {
 public:
  WebSocketClient(boost::asio::any_io_executor executor, Endpoint endpoint,
                  WebSocketOptions options = {}, ClientLimits limits = {});
  ~WebSocketClient();
  WebSocketClient(const WebSocketClient&) = delete;
  WebSocketClient& operator=(const WebSocketClient&) = delete;

  // Asks for a WebSocket, once. A status other than 101 is a refusal, and the response says why.
  // Throws Error{unavailable} as Client::request does, and when the server's 101 is no answer to
  // what was asked. `protocols` and `headers` of the options are sent.
  awaitable<Response> connect(std::string target);

  // There after a 101.
  WebSocket& socket();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tb::http
