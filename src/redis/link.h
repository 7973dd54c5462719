// SPDX-License-Identifier: Apache-2.0
// One connection to Redis: TCP, or TLS over it.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <span>
#include <string>

#include "net/resolver.h"
#include "net/tls.h"
#include "redis/client.h"

namespace tb::redis {

class Link {
 public:
  explicit Link(boost::asio::any_io_executor executor) : socket_(executor) {}

  // Throws Error{unavailable}.
  awaitable<void> connect(const Node& node, bool encrypted, net::Resolver& resolver, net::Tls& tls);
  // 0 when it has ended.
  awaitable<std::size_t> read_some(std::span<char> out);
  // Throws Error{unavailable}.
  awaitable<void> write(const std::string& bytes);
  // Ends it and all that waits for it.
  void close();

 private:
  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<net::TlsStream> tls_;
};

}  // namespace tb::redis
