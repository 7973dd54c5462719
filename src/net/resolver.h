// SPDX-License-Identifier: Apache-2.0
// Names to addresses, on the loop: /etc/hosts, then the servers of /etc/resolv.conf. Done by
// c-ares, because a static program has no getaddrinfo(3) to rely on.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "base/units.h"
#include "net/address.h"

namespace tb::net {

using boost::asio::awaitable;

// Whether `servers` ("10.0.0.2", "[fd00::2]:53", with commas between them) can be asked.
bool good_dns_servers(const std::string& servers);

class Resolver {
 public:
  struct Settings {
    std::string servers = {};  // empty: those of /etc/resolv.conf
    Milliseconds limit = 5s;
  };
  Resolver(boost::asio::any_io_executor executor, Settings settings);

  // Every address of `host`, IPv4 and IPv6, in the order in which to try them; at least one. Throws
  // Error{unavailable} when nobody knows it.
  awaitable<std::vector<Address>> resolve(std::string host);

 private:
  boost::asio::any_io_executor executor_;
  Settings settings_;
};

}  // namespace tb::net
