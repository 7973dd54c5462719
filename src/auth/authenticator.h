// SPDX-License-Identifier: Apache-2.0
// From the headers of a request to who sent it. One credential, in one of two places:
//
//   Authorization: Bearer <credential>
//   X-API-Key: <credential>
#pragma once

#include <boost/asio/awaitable.hpp>
#include <optional>
#include <string>

#include "auth/keyring.h"
#include "auth/principal.h"
#include "http/message.h"

namespace tb::auth {

using boost::asio::awaitable;

// What a request shows to say who sent it; empty: nothing. Throws HttpError 401 when that is
// ambiguous: two credentials, or a scheme that is not Bearer.
std::optional<std::string_view> find_credential(const http::Headers& headers);

class Authenticator {
 public:
  struct Settings {
    std::string keys;  // the file
  };
  // Throws Error when keys can't be read: better no server than one that lets everybody in.
  explicit Authenticator(Settings settings);

  // Somebody must show a credential. Without any key there is none to ask for: whoever reaches the
  // server is its admin.
  bool required() const { return keys_.any(); }
  std::size_t keys() const { return keys_.size(); }

  // Throws HttpError 401 that says what to do. With `open`, who can't be known is a stranger
  // instead.
  awaitable<Principal> authenticate(const http::Request& request, bool open);

 private:
  Principal check(std::string_view credential) const;

  Keyring keys_;
};

}  // namespace tb::auth
