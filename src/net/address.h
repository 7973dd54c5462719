// SPDX-License-Identifier: Apache-2.0
// Which addresses a callback may be sent to. A tenant chooses where it goes, and this server stands
// where the tenant does not: the machine itself and the networks around it are not for callbacks
// unless the operator says so.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tb::net {

using Address = boost::asio::ip::address;

// An address as everybody writes it: four decimal numbers without leading zeros, or IPv6 without a
// zone. The other spellings (0x7f.1, 2130706433, 0177.0.0.1) are no addresses.
std::optional<Address> parse_address(std::string_view text);

struct Network {
  Address first;
  unsigned bits = 0;
  bool contains(const Address& address) const;
};

// "10.1.0.0/16", "fd00::/8", or an address alone.
std::optional<Network> parse_network(std::string_view text);

class AddressRules {
 public:
  AddressRules() = default;
  AddressRules(bool allow_private, std::vector<Network> allowed)
      : allow_private_(allow_private), allowed_(std::move(allowed)) {}

  bool allows_private() const { return allow_private_; }
  // What kind of address it is that nothing is sent to; empty: it may be sent to.
  std::string refusal(const Address& address) const;

 private:
  bool allow_private_ = false;
  std::vector<Network> allowed_;
};

}  // namespace tb::net
