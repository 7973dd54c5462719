// SPDX-License-Identifier: Apache-2.0
#include "net/address.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <span>

namespace tb::net {
namespace {

using V4 = boost::asio::ip::address_v4;
using V6 = boost::asio::ip::address_v6;

struct Row {
  const char* network;
  const char* kind;
};

// IANA's registry of special-purpose addresses, and what is no single machine's.
constexpr Row kSpecial4[] = {
    {"0.0.0.0/8", "this host"},
    {"10.0.0.0/8", "private"},
    {"100.64.0.0/10", "shared by a provider (CGNAT)"},
    {"127.0.0.0/8", "loopback"},
    {"168.63.129.16/32", "a cloud's own"},
    {"169.254.0.0/16", "link-local"},
    {"172.16.0.0/12", "private"},
    {"192.0.0.0/24", "reserved"},
    {"192.0.2.0/24", "for documentation"},
    {"192.88.99.0/24", "a 6to4 relay"},
    {"192.168.0.0/16", "private"},
    {"198.18.0.0/15", "for benchmarks"},
    {"198.51.100.0/24", "for documentation"},
    {"203.0.113.0/24", "for documentation"},
    {"224.0.0.0/4", "multicast"},
    {"240.0.0.0/4", "reserved"},
};

// Only 2000::/3 is given out to anybody; of that, these are not. The first match counts.
constexpr Row kSpecial6[] = {
    {"::/128", "unspecified"},
    {"::1/128", "loopback"},
    {"::ffff:0:0/96", "an IPv4 address within IPv6"},
    {"64:ff9b:1::/48", "a local translation (NAT64)"},
    {"100::/64", "a black hole"},
    {"2001::/23", "reserved"},
    {"2001:db8::/32", "for documentation"},
    {"3fff::/20", "for documentation"},
    {"fc00::/7", "unique-local"},
    {"fe80::/10", "link-local"},
    {"fec0::/10", "site-local"},
    {"ff00::/8", "multicast"},
};

struct Special {
  Network network;
  const char* kind;
};

std::vector<Special> read(std::span<const Row> rows) {
  std::vector<Special> list;
  for (const Row& row : rows) list.push_back({*parse_network(row.network), row.kind});
  return list;
}

std::string find(const std::vector<Special>& list, const Address& address) {
  for (const Special& row : list) {
    if (row.network.contains(address)) return row.kind;
  }
  return {};
}

std::string kind_of(const V4& address) {
  static const std::vector<Special> list = read(kSpecial4);
  return find(list, address);
}

V4 embedded(const V6::bytes_type& bytes, std::size_t at) {
  return V4{V4::bytes_type{bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]}};
}

std::string kind_of(const V6& address) {
  static const std::vector<Special> list = read(kSpecial6);
  static const Network global = *parse_network("2000::/3");
  static const Network nat64 = *parse_network("64:ff9b::/96");
  static const Network to4 = *parse_network("2002::/16");
  const V6::bytes_type bytes = address.to_bytes();
  // A gateway on the way turns these into the IPv4 address that is written in them.
  if (nat64.contains(address) || to4.contains(address)) {
    const std::string inner = kind_of(embedded(bytes, to4.contains(address) ? 2 : 12));
    return inner.empty() ? inner : inner + ", within IPv6";
  }
  const std::string kind = find(list, address);
  if (!kind.empty()) return kind;
  return global.contains(address) ? std::string{} : "reserved";
}

bool same_bits(std::span<const unsigned char> a, std::span<const unsigned char> b, unsigned bits) {
  for (unsigned at = 0; at < a.size() && bits > 0; ++at) {
    const unsigned here = std::min(bits, 8u);
    const auto mask = static_cast<unsigned char>(0xff00u >> here);
    if ((a[at] & mask) != (b[at] & mask)) return false;
    bits -= here;
  }
  return true;
}

}  // namespace

std::optional<Address> parse_address(std::string_view text) {
  const std::string terminated{text};
  if (text.find('\0') != text.npos) return std::nullopt;
  V4::bytes_type four;
  if (::inet_pton(AF_INET, terminated.c_str(), four.data()) == 1) return V4{four};
  V6::bytes_type sixteen;
  if (::inet_pton(AF_INET6, terminated.c_str(), sixteen.data()) == 1) return V6{sixteen};
  return std::nullopt;
}

std::optional<Network> parse_network(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto address = parse_address(text.substr(0, slash));
  if (!address) return std::nullopt;
  const unsigned most = address->is_v4() ? 32 : 128;
  if (slash == text.npos) return Network{*address, most};
  const std::string_view digits = text.substr(slash + 1);
  unsigned bits = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  if (error != std::errc{} || end != digits.data() + digits.size() || bits > most) {
    return std::nullopt;
  }
  return Network{*address, bits};
}

bool Network::contains(const Address& address) const {
  if (address.is_v4() != first.is_v4()) return false;
  if (address.is_v4()) {
    const V4::bytes_type mine = first.to_v4().to_bytes();
    const V4::bytes_type theirs = address.to_v4().to_bytes();
    return same_bits(mine, theirs, bits);
  }
  const V6::bytes_type mine = first.to_v6().to_bytes();
  const V6::bytes_type theirs = address.to_v6().to_bytes();
  return same_bits(mine, theirs, bits);
}

std::string AddressRules::refusal(const Address& address) const {
  if (allow_private_) return {};
  const auto holds = [&](const Network& network) { return network.contains(address); };
  if (std::any_of(allowed_.begin(), allowed_.end(), holds)) return {};
  return address.is_v4() ? kind_of(address.to_v4()) : kind_of(address.to_v6());
}

}  // namespace tb::net
