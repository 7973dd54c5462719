// SPDX-License-Identifier: Apache-2.0
#include "http/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "http/address.h"

namespace tb::http {
namespace {

// The kernel cuts this to net.core.somaxconn.
constexpr int kBacklog = 4096;

[[noreturn]] void explain_bind_failure(int number, const std::string& host, std::uint16_t port) {
  const std::string name = "port " + std::to_string(port);
  switch (number) {
    case EADDRINUSE: throw Error{Code::conflict, name + " is in use: set PORT to another one"};
    case EACCES: throw Error{Code::invalid, name + " needs privileges: set PORT to one above 1023"};
    case EADDRNOTAVAIL:
      throw Error{Code::invalid, "no interface has the address " + host + ": set HOST to another"};
    default: throw SystemError{number, "listen on " + host + ' ' + name};
  }
}

// Where the system's choice is BBR, each packet waits for a timer of its own: on a network worth
// it, within a machine most of what a transfer costs. Connections have what their listener has;
// they can't change it later, the timer stays. Whoever can't have it is only slower.
void send_without_pauses(int socket) {
  constexpr std::string_view kPlain = "reno";  // in every kernel, and everybody may have it
  ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, kPlain.data(), kPlain.size());
}

// Closes on the way out of a failure.
class OpenSocket {
 public:
  explicit OpenSocket(int fd) : fd_(fd) {}
  ~OpenSocket() {
    if (fd_ >= 0) ::close(fd_);
  }
  OpenSocket(const OpenSocket&) = delete;
  OpenSocket& operator=(const OpenSocket&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

int bind_listener(const std::string& host, std::uint16_t port) {
  const auto address = parse_tcp_address(host, port);
  if (!address) throw Error{Code::invalid, "HOST '" + host + "' is not an IPv4 or IPv6 address"};
  const int family = address->storage.ss_family;
  OpenSocket socket{
      check(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "open a TCP socket")};
  const int on = 1;
  const int off = 0;
  // A restart must not wait for the connections of the last run to leave TIME_WAIT.
  check(::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), "SO_REUSEADDR");
  if (family == AF_INET6) {
    check(::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off), "IPV6_V6ONLY");
  }
  if (address->is_loopback()) send_without_pauses(socket.get());
  if (::bind(socket.get(), address->raw(), address->size) != 0 ||
      ::listen(socket.get(), kBacklog) != 0) {
    explain_bind_failure(errno, host, port);
  }
  return socket.release();
}

std::uint16_t port_of(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  check(::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size), "getsockname");
  // The port is at the same place for both families.
  return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

}  // namespace tb::http
