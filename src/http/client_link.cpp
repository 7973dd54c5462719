// SPDX-License-Identifier: Apache-2.0
#include "http/client_link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "http/address.h"

namespace tb::http {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kBuffer = 128 << 10;

SocketAddress unix_address(const std::string& path) {
  SocketAddress address;
  auto& raw = reinterpret_cast<sockaddr_un&>(address.storage);
  if (path.size() >= sizeof raw.sun_path) {
    throw Error{Code::invalid, "the path of the socket is too long: " + path};
  }
  raw.sun_family = AF_UNIX;
  std::memcpy(raw.sun_path, path.c_str(), path.size() + 1);
  address.size = sizeof raw;
  return address;
}

SocketAddress address_of(const Endpoint& endpoint) {
  if (!endpoint.path.empty()) return unix_address(endpoint.path);
  const auto address = parse_tcp_address(endpoint.host, endpoint.port);
  if (!address) {
    throw Error{Code::invalid, "'" + endpoint.host + "' is not an IPv4 or IPv6 address"};
  }
  return *address;
}

[[noreturn]] void unreachable(int number) {
  throw Error{Code::unavailable, std::string{"cannot connect: "} + std::strerror(number)};
}

}  // namespace

awaitable<void> Link::wait_writable() {
  co_await socket_.async_wait(asio::posix::descriptor_base::wait_write, asio::use_awaitable);
}

awaitable<void> Link::connect(const Endpoint& endpoint) {
  const SocketAddress address = address_of(endpoint);
  const int type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  socket_.assign(check(::socket(address.storage.ss_family, type, 0), "open a socket"));
  const int fd = socket_.native_handle();
  const int on = 1;
  if (endpoint.path.empty()) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);

  if (::connect(fd, address.raw(), address.size) == 0) co_return;
  if (errno != EINPROGRESS) unreachable(errno);
  co_await wait_writable();
  int failure = 0;
  socklen_t size = sizeof failure;
  check(::getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size), "SO_ERROR");
  if (failure != 0) unreachable(failure);
}

awaitable<void> Link::send(std::string_view message) {
  while (!message.empty()) {
    const ssize_t sent =
        ::send(socket_.native_handle(), message.data(), message.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      message.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      co_await wait_writable();
    } else if (errno == EPIPE || errno == ECONNRESET) {
      co_return;  // The server may have answered before it closed: read that first.
    } else if (errno != EINTR) {
      throw Error{Code::unavailable, std::string{"cannot send: "} + std::strerror(errno)};
    }
  }
}

awaitable<std::size_t> Link::receive(std::size_t limit) {
  const std::span<char> room = buffer_.prepare(limit);
  if (room.empty()) throw Error{Code::exhausted, "the response head is too large"};
  const asio::mutable_buffer target{room.data(), room.size()};
  const auto [error, got] =
      co_await socket_.async_read_some(target, asio::as_tuple(asio::use_awaitable));
  if (error == asio::error::operation_aborted) throw boost::system::system_error{error};
  buffer_.commit(got);
  co_return got;
}

awaitable<void> Link::exchange(std::string_view message, ResponseParser& parser, Bytes most) {
  co_await send(message);
  bool answered = false;
  while (!parser.done() && parser.response().body.size() <= most.count) {
    const std::size_t got = co_await receive(kBuffer);
    if (got == 0) {
      if (!answered) throw LinkClosed{};
      parser.finish();
      break;
    }
    answered = true;
    buffer_.consume(parser.parse(buffer_.view()));
  }
}

bool Link::usable() {
  char byte;
  const ssize_t got = ::recv(socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return got < 0 && errno == EAGAIN && buffer_.empty();
}

}  // namespace tb::http
