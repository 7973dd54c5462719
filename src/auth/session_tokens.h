// SPDX-License-Identifier: Apache-2.0
// Tokens for one session, to hand to a browser or an agent: what they allow stands in them, signed
// with a secret of this server. Nothing is stored, so one can't be called back alone: it ends with
// its time, with its session, and with the key that it was made with.
//
//   tbs_<base64url of JSON>.<base64url of HMAC-SHA256 of what is before the dot>
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "auth/key_table.h"
#include "auth/principal.h"

namespace tb::auth {

struct SessionToken {
  std::string session;
  std::string tenant;
  Role role = Role::user;  // never admin
  std::string key;         // the id of the key that it was made with; empty: none
  std::string user = {};   // whom a token of others named that it was made with; empty: nobody
  Scopes scopes = kAllScopes;
  WallTime expires = {};
};

class SessionTokens {
 public:
  // The secret is a file, made with mode 0600 when it is missing.
  explicit SessionTokens(const std::string& path);

  static bool looks_like_one(std::string_view text) { return text.starts_with("tbs_"); }

  std::string sign(const SessionToken& token) const;
  // Empty: not signed here. The time is not looked at.
  std::optional<SessionToken> read(std::string_view text) const;

 private:
  std::string secret_;
};

}  // namespace tb::auth
