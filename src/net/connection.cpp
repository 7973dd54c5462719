// SPDX-License-Identifier: Apache-2.0
#include "net/connection.h"

#include <sys/socket.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>

#include "base/error.h"

namespace tb::net {
namespace {

using tcp = asio::ip::tcp;

constexpr std::size_t kMaxTried = 4;  // addresses of a host

// Being cancelled is no failure of the other side.
[[noreturn]] void fail(const std::string& doing, boost::system::error_code error) {
  if (error == asio::error::operation_aborted) throw boost::system::system_error{error};
  throw Error{Code::unavailable, doing + ": " + error.message()};
}

}  // namespace

awaitable<void> Connection::open(std::vector<Address> addresses, const Url& url, Tls& tls) {
  if (addresses.size() > kMaxTried) addresses.resize(kMaxTried);
  boost::system::error_code problem = asio::error::host_not_found;
  for (const Address& address : addresses) {
    boost::system::error_code ignored;
    socket_.close(ignored);
    const tcp::endpoint endpoint{address, url.port};
    const auto [error] =
        co_await socket_.async_connect(endpoint, asio::as_tuple(asio::use_awaitable));
    problem = error;
    if (!error || error == asio::error::operation_aborted) break;
  }
  if (problem) fail("no connection to " + url.authority(), problem);
  boost::system::error_code ignored;
  socket_.set_option(tcp::no_delay{true}, ignored);  // small requests that somebody waits for
  if (!url.tls) co_return;
  tls_ = tls.wrap(socket_, url);
  co_await tls.handshake(*tls_);
}

awaitable<void> Connection::write(std::string_view bytes) {
  const asio::const_buffer all{bytes.data(), bytes.size()};
  boost::system::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  if (tls_) {
    co_await asio::async_write(*tls_, all, token);
  } else {
    co_await asio::async_write(socket_, all, token);
  }
  if (error) fail("the connection was lost", error);
}

awaitable<std::size_t> Connection::read_some(std::span<char> out) {
  const asio::mutable_buffer room{out.data(), out.size()};
  boost::system::error_code error;
  auto token = asio::redirect_error(asio::use_awaitable, error);
  std::size_t got = 0;
  if (tls_) {
    got = co_await tls_->async_read_some(room, token);
  } else {
    got = co_await socket_.async_read_some(room, token);
  }
  // A peer that closes without TLS's own good-bye: what is missing shows in the message itself.
  const bool ended = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
  if (error && !ended && got == 0) fail("the connection was lost", error);
  co_return got;
}

bool Connection::usable() {
  char byte = 0;
  const ssize_t n = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n < 0 && (errno == EAGAIN || errno == EINTR);
}

}  // namespace tb::net
