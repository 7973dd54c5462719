// SPDX-License-Identifier: Apache-2.0
// A connection to somewhere outside of this machine, with TLS or without.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.h"
#include "net/tls.h"
#include "net/url.h"

namespace tb::net {

// One user at a time; dropped, it is closed.
class Connection {
 public:
  explicit Connection(asio::any_io_executor executor) : socket_(executor) {}

  // To the first of `addresses` that answers; checks the certificate for the host of `url`. Throws
  // Error{unavailable} that says what failed.
  awaitable<void> open(std::vector<Address> addresses, const Url& url, Tls& tls);
  awaitable<void> write(std::string_view bytes);
  // 0: the other end has closed it.
  awaitable<std::size_t> read_some(std::span<char> out);
  // False when the other end has closed it or has sent something unasked.
  bool usable();

 private:
  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<TlsStream> tls_;
};

}  // namespace tb::net
