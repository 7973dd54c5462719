// SPDX-License-Identifier: Apache-2.0
// An HTTP/1.1 server: accepts, parses strictly, calls the handler, times out whoever dawdles.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "http/exchange.h"
#include "http/limits.h"
#include "http/secure_layer.h"

namespace tb::http {

// Called for each request. Runs as part of the connection's coroutine; it is cancelled when the
// server's close() runs out of patience. An HttpError becomes its status, Disconnected ends the
// connection, and anything else thrown is a 500 and a call of OnFailure.
using Handler = std::function<awaitable<void>(Exchange&)>;

// Told what a handler (`where` is its method, target and request id) or the server itself threw.
using OnFailure = std::function<void(const std::string& where, std::exception_ptr)>;

// One thread runs the executor and calls everything here. Call close() and let it finish before
// destroying the server.
class Server {
 public:
  Server(boost::asio::any_io_executor executor, ServerLimits limits, Handler handler,
         OnFailure on_failure = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves the connections of a bound, listening TCP or unix socket, which it owns from here on.
  void listen(int listening_fd, Secure secure = {});

  // Accepts no more, closes idle connections, lets requests in progress finish until `drain` is
  // over, then cancels the rest and waits for its end.
  awaitable<void> close(std::chrono::milliseconds drain);

  std::size_t connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tb::http
