// SPDX-License-Identifier: Apache-2.0
// JSON Web Tokens of an identity provider (RFC 7519, 8725): who is meant is in the token, and the
// provider's signature says that it is true. What is not exactly right is refused.
#pragma once

#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "auth/jwk.h"
#include "auth/key_table.h"
#include "auth/principal.h"

namespace tb::auth {

struct JwtRules {
  std::string issuer;    // `iss` must be this
  std::string audience;  // `aud` must be this, or a list that has it
  std::chrono::seconds leeway{60};
  std::string tenant_claim = "tenant";  // empty: all are the default tenant's
  std::string role_claim = "role";      // absent in a token: user
};

// Why a token opens nothing, in words for whoever sent it.
class BadToken : public Error {
 public:
  explicit BadToken(const std::string& why) : Error(Code::invalid, why) {}
};

// The head and the claims, read but not believed.
struct ParsedJwt {
  Algorithm algorithm = Algorithm::hs256;
  std::string key_id;       // empty: it names none
  std::string signed_text;  // head and claims as they were signed
  std::string signature;
  std::string claims;  // JSON

  // Throws BadToken.
  static ParsedJwt parse(std::string_view token);
};

// Who the claims name, and until when. Throws BadToken.
struct Claimed {
  Principal who;
  WallTime expires;
};
Claimed read_claims(std::string_view claims, const JwtRules& rules, WallTime now);

// Verdicts on tokens that were good, so that a signature is checked once. Bounded; the oldest use
// goes first.
class VerdictCache {
 public:
  explicit VerdictCache(std::size_t most) : most_(most) {}
  // Null: unknown, or its time is over.
  const Principal* find(std::string_view token, WallTime now);
  void put(std::string_view token, Claimed verdict);
  void clear();
  std::size_t size() const { return order_.size(); }

 private:
  struct Row {
    std::string digest;  // of the token, which is not kept
    Claimed verdict;
  };
  const std::size_t most_;
  std::list<Row> order_;  // the latest use first
  std::unordered_map<std::string_view, std::list<Row>::iterator> rows_;
};

}  // namespace tb::auth
