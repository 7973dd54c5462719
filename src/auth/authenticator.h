// SPDX-License-Identifier: Apache-2.0
// From the headers of a request to who sent it. One credential, in one of two places:
//
//   Authorization: Bearer <credential>
//   X-API-Key: <credential>
//
// and, of a page that opens a WebSocket, which can write neither, among the protocols that it
// offers: threadbox.token.<credential>. It is an API key, a token for one session, or a JSON Web
// Token of an identity provider.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "auth/failures.h"
#include "auth/jwks.h"
#include "auth/jwt.h"
#include "auth/keyring.h"
#include "auth/principal.h"
#include "auth/session_tokens.h"
#include "http/message.h"

namespace tb::auth {

// What a request shows to say who sent it; empty: nothing. Throws HttpError 401 when that is
// ambiguous: two credentials, or a scheme that is not Bearer.
std::optional<std::string_view> find_credential(const http::Headers& headers);

struct JwtSettings {
  JwksSettings keys;
  JwtRules rules;
};

class Authenticator {
 public:
  struct Settings {
    std::string keys;    // the file of API keys
    std::string secret;  // the file of the secret that signs tokens for sessions
    std::optional<JwtSettings> jwt = std::nullopt;
  };
  // Throws Error when keys can't be read: better no server than one that lets everybody in.
  Authenticator(asio::any_io_executor executor, Settings settings);

  void open();
  awaitable<void> close();

  // Somebody must show a credential. Without any key there is none to ask for: whoever reaches the
  // server is its admin.
  bool required() const { return keys_.any() || jwks_; }
  std::size_t keys() const { return keys_.size(); }
  const std::string& issuer() const { return rules_.issuer; }  // empty: there are no JWTs
  const SessionTokens& tokens() const { return tokens_; }

  // Throws HttpError 401 that says what to do, and 429 to who tries too many. With `open`, who
  // can't be known is a stranger instead. A token for a session counts where nobody is asked, too.
  awaitable<Principal> authenticate(const http::Request& request, bool open);
  // For what goes on for long: the API key that it was begun with is still good.
  bool still_good(const Principal& who);

 private:
  awaitable<Principal> check(std::string_view credential);
  Principal check_key(std::string_view credential) const;
  Principal check_token(std::string_view credential) const;
  awaitable<Principal> check_jwt(std::string_view credential);

  Keyring keys_;
  SessionTokens tokens_;
  JwtRules rules_;
  std::unique_ptr<Jwks> jwks_;  // null: there are no JWTs
  VerdictCache verdicts_;
  unsigned generation_ = 0;  // of the keys that the verdicts are from
  Failures failures_;
};

}  // namespace tb::auth
