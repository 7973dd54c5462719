// SPDX-License-Identifier: Apache-2.0
// The URL of a callback, read strictly: what two programs could read differently is refused, for
// the one that checks and the one that connects must mean the same place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "net/address.h"

namespace tb::net {

inline constexpr std::size_t kMaxUrl = 2048;

struct Url {
  bool tls = false;
  std::string host;                // a name in lower case, or an address; IPv6 without brackets
  std::optional<Address> address;  // when the host is one
  std::uint16_t port = 0;
  std::string target;  // path and query, as they are sent

  std::string authority() const;  // for the Host header
  std::string text() const;
};

// http:// or https://, a name or an address, a port; no user, no fragment, no zone. Throws
// Error{invalid} that says what is wrong.
Url parse_url(std::string_view text);

// Where a redirect from `base` leads: a whole URL, or a path on the same host.
Url parse_redirect(const Url& base, std::string_view location);

// Throws Error{invalid} when it can be seen without asking anybody that nothing is sent there.
void check_destination(const Url& url, const AddressRules& rules);

}  // namespace tb::net
