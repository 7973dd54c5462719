// SPDX-License-Identifier: Apache-2.0
// Socket addresses: made from text, and shown or counted by.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tb::http {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  bool is_loopback() const;
};

// `host` is an IPv4 or IPv6 address or "localhost" (127.0.0.1); empty when it is none of these.
std::optional<SocketAddress> parse_tcp_address(const std::string& host, std::uint16_t port);

// The other end of a connection.
class PeerAddress {
 public:
  explicit PeerAddress(const sockaddr_storage& address);

  // "192.0.2.1", "2001:db8::1" or "unix". An IPv4 address within IPv6 is shown as IPv4.
  const std::string& text() const { return text_; }

  // The same for all that should count as one: an IPv4 address, a /64 of IPv6, which is what one
  // customer gets. Empty for a unix socket.
  const std::string& key() const { return key_; }

 private:
  std::string text_;
  std::string key_;
};

}  // namespace tb::http
