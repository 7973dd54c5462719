// SPDX-License-Identifier: Apache-2.0
#include "redis/link.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "base/error.h"

namespace tb::redis {
namespace {

namespace asio = boost::asio;
using tcp = asio::ip::tcp;

}  // namespace

awaitable<void> Link::connect(const Node& node, bool encrypted, net::Resolver& resolver,
                              net::Tls& tls) {
  net::Url url;  // as far as TLS wants to know it
  url.host = node.host;
  url.port = node.port;
  url.address = net::parse_address(node.host);
  std::vector<net::Address> addresses;
  if (url.address) {
    addresses.push_back(*url.address);
  } else {
    addresses = co_await resolver.resolve(node.host);
  }
  std::string problem = "no address";
  for (const net::Address& address : addresses) {
    const tcp::endpoint endpoint{address, node.port};
    boost::system::error_code ignored;
    socket_.close(ignored);
    const auto [error] =
        co_await socket_.async_connect(endpoint, asio::as_tuple(asio::use_awaitable));
    if (error == asio::error::operation_aborted) throw boost::system::system_error{error};
    problem = error ? error.message() : "";
    if (!error) break;
  }
  if (!problem.empty()) throw Error{Code::unavailable, "no connection: " + problem};
  socket_.set_option(tcp::no_delay{true});
  if (!encrypted) co_return;
  tls_ = tls.wrap(socket_, url);
  co_await tls.handshake(*tls_);
}

awaitable<std::size_t> Link::read_some(std::span<char> out) {
  const asio::mutable_buffer room{out.data(), out.size()};
  if (tls_) {
    const auto [error, got] =
        co_await tls_->async_read_some(room, asio::as_tuple(asio::use_awaitable));
    co_return error ? 0 : got;
  }
  const auto [error, got] =
      co_await socket_.async_read_some(room, asio::as_tuple(asio::use_awaitable));
  co_return error ? 0 : got;
}

awaitable<void> Link::write(const std::string& bytes) {
  const asio::const_buffer all{bytes.data(), bytes.size()};
  boost::system::error_code failure;
  if (tls_) {
    const auto [error, sent] =
        co_await asio::async_write(*tls_, all, asio::as_tuple(asio::use_awaitable));
    failure = error;
  } else {
    const auto [error, sent] =
        co_await asio::async_write(socket_, all, asio::as_tuple(asio::use_awaitable));
    failure = error;
  }
  if (failure) throw Error{Code::unavailable, "the connection is lost: " + failure.message()};
}

void Link::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
}

}  // namespace tb::redis
