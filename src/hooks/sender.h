// SPDX-License-Identifier: Apache-2.0
// One attempt to deliver: a POST over http or https to an address that was checked.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "http/message.h"
#include "net/resolver.h"
#include "net/url.h"

namespace tb::hooks {

using boost::asio::awaitable;

// What came of it.
struct Attempt {
  int status = 0;          // of the answer; 0: there was none
  std::string error = {};  // why there was none, or why no other attempt makes sense
  bool refused = false;    // it leads to where nothing is sent: another attempt would too
  std::optional<std::chrono::seconds> retry_after = {};

  bool delivered() const { return status >= 200 && status < 300; }
};

class Sender {
 public:
  struct Settings {
    net::AddressRules rules;
    std::string dns_servers;
    std::string authorities;  // PEM; empty: the system's
    Milliseconds connect = 5s;
    Milliseconds whole = 15s;
    unsigned redirects = 3;
  };
  // Throws Error{invalid} when there are no certificates in `authorities`.
  Sender(boost::asio::any_io_executor executor, Settings settings);
  ~Sender();

  // Looks a name up once and connects to one of the addresses that were checked. Follows 307 and
  // 308, each checked like the first. Reads the head of the answer and no more. Throws only when it
  // is cancelled.
  awaitable<Attempt> post(std::string url, std::vector<http::Header> headers, std::string body);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tb::hooks
