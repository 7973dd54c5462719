// SPDX-License-Identifier: Apache-2.0
#include "http/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstring>

namespace tb::http {
namespace {

template <class Address>
std::string to_text(int family, const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  ::inet_ntop(family, &address, text, sizeof text);
  return text;
}

template <class Address>
std::string first_bytes(const Address& address, std::size_t size) {
  return {reinterpret_cast<const char*>(&address), size};
}

}  // namespace

std::optional<SocketAddress> parse_tcp_address(const std::string& host, std::uint16_t port) {
  const std::string literal = host == "localhost" ? "127.0.0.1" : host;
  SocketAddress address;
  auto& v4 = reinterpret_cast<sockaddr_in&>(address.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address.storage);
  if (::inet_pton(AF_INET, literal.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    address.size = sizeof v4;
    return address;
  }
  if (::inet_pton(AF_INET6, literal.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    address.size = sizeof v6;
    return address;
  }
  return std::nullopt;
}

bool SocketAddress::is_loopback() const {
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(storage).sin_addr;
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
  if (storage.ss_family == AF_INET) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  if (storage.ss_family != AF_INET6) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) ||
         (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET);
}

PeerAddress::PeerAddress(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    text_ = to_text(AF_INET, v4);
    key_ = first_bytes(v4, 4);
  } else if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      in_addr v4{};
      std::memcpy(&v4, v6.s6_addr + 12, 4);
      text_ = to_text(AF_INET, v4);
      key_ = first_bytes(v4, 4);
    } else {
      text_ = to_text(AF_INET6, v6);
      key_ = first_bytes(v6, 8);
    }
  } else {
    text_ = "unix";
  }
}

}  // namespace tb::http
