// SPDX-License-Identifier: Apache-2.0
#include "auth/authenticator.h"

#include <algorithm>

namespace tb::auth {
namespace {

using Verdict = Keyring::Verdict;

constexpr std::size_t kMaxCredential = 16 << 10;
constexpr std::size_t kVerdicts = 10'000;
constexpr std::string_view kProtocol = "threadbox.token.";

http::HttpError refusal(const std::string& text, const char* error) {
  std::string challenge = "Bearer realm=\"threadbox\"";
  if (*error) challenge += std::string{", error=\""} + error + "\"";
  return http::HttpError{401, text, {{"WWW-Authenticate", std::move(challenge)}}};
}

http::HttpError invalid(const std::string& text) { return refusal(text, "invalid_token"); }

// It was good once, or is real and not for us: nobody guesses such a one.
class Known : public http::HttpError {
 public:
  explicit Known(const std::string& text) : http::HttpError(invalid(text)) {}
};

http::HttpError missing() {
  return refusal(
      "this server asks for an API key: send \"Authorization: Bearer <key>\" or \"X-API-Key: "
      "<key>\" (the operator makes keys with `threadbox keys create`)",
      "");
}

http::HttpError too_many() {
  return http::HttpError{429,
                         "too many wrong credentials from this address: try again later",
                         {{"Retry-After", "10"}}};
}

// Pages offer protocols one by one or in one header.
std::optional<std::string_view> find_offered(const http::Headers& headers) {
  std::optional<std::string_view> found;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    const auto [name, value] = headers[i];
    if (!http::equal_ignoring_case(name, "Sec-WebSocket-Protocol")) continue;
    for (std::size_t start = 0; start < value.size();) {
      const std::size_t comma = std::min(value.find(',', start), value.size());
      std::string_view word = value.substr(start, comma - start);
      start = comma + 1;
      word.remove_prefix(std::min(word.find_first_not_of(" \t"), word.size()));
      word = word.substr(0, word.find_last_not_of(" \t") + 1);
      if (!word.starts_with(kProtocol)) continue;
      if (found) throw invalid("more than one credential: send one of them");
      found = word.substr(kProtocol.size());
    }
  }
  return found;
}

std::string_view after_scheme(std::string_view value) {
  constexpr std::string_view kScheme = "Bearer ";
  if (value.size() < kScheme.size() ||
      !http::equal_ignoring_case(value.substr(0, kScheme.size()), kScheme)) {
    throw invalid("the Authorization header must be: Bearer and an API key or a token");
  }
  value.remove_prefix(kScheme.size());
  while (value.starts_with(' ')) value.remove_prefix(1);
  return value;
}

// Where nobody is asked, other credentials are no business of ours.
std::optional<std::string_view> find_session_token(const http::Headers& headers) {
  try {
    const auto credential = find_credential(headers);
    if (credential && SessionTokens::looks_like_one(*credential)) return credential;
  } catch (const http::HttpError&) {
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> find_credential(const http::Headers& headers) {
  const std::size_t bearers = headers.count("Authorization");
  const std::size_t keys = headers.count("X-API-Key");
  const auto offered = find_offered(headers);
  const std::size_t all = bearers + keys + (offered ? 1 : 0);
  if (all == 0) return std::nullopt;
  if (all > 1) throw invalid("more than one credential: send one of them");
  std::string_view value = offered.value_or("");
  if (bearers) value = after_scheme(*headers.find("Authorization"));
  if (keys) value = *headers.find("X-API-Key");
  if (value.empty()) throw invalid("the credential is empty");
  if (value.size() > kMaxCredential) throw invalid("the credential is too long");
  return value;
}

Authenticator::Authenticator(asio::any_io_executor executor, Settings settings)
    : keys_(settings.keys), tokens_(settings.secret), verdicts_(kVerdicts) {
  if (!settings.jwt) return;
  rules_ = std::move(settings.jwt->rules);
  jwks_ = std::make_unique<Jwks>(executor, std::move(settings.jwt->keys));
}

void Authenticator::open() {
  if (jwks_) jwks_->open();
}

awaitable<void> Authenticator::close() {
  if (jwks_) co_await jwks_->close();
}

awaitable<Principal> Authenticator::authenticate(const http::Request& request, bool open) {
  const auto now = std::chrono::steady_clock::now();
  keys_.refresh(now);
  if (jwks_) jwks_->refresh(now);
  std::optional<http::HttpError> refused;
  bool guessed = true;
  try {
    if (!required()) {
      const auto token = find_session_token(request.headers);
      co_return token ? check_token(*token) : Principal{};
    }
    const auto credential = find_credential(request.headers);
    if (credential) co_return co_await check(*credential);
  } catch (const Known& error) {
    refused = error;
    guessed = false;
  } catch (const http::HttpError& error) {
    refused = error;
  }
  if (open) {
    Principal stranger;
    stranger.role = Role::readonly;
    stranger.stranger = true;
    co_return stranger;
  }
  if (!refused) throw missing();
  if (guessed && failures_.note(request.peer, now)) throw too_many();
  throw *refused;
}

awaitable<Principal> Authenticator::check(std::string_view credential) {
  if (SessionTokens::looks_like_one(credential)) co_return check_token(credential);
  if (!jwks_ || credential.starts_with("tb_")) co_return check_key(credential);
  co_return co_await check_jwt(credential);
}

Principal Authenticator::check_key(std::string_view credential) const {
  const Keyring::Found found = keys_.find(credential, std::chrono::system_clock::now());
  switch (found.verdict) {
    case Verdict::good: break;
    case Verdict::expired: throw Known("this API key has expired: ask the operator for another");
    case Verdict::revoked: throw Known("this API key was revoked: ask the operator for another");
    case Verdict::unknown: throw invalid("this API key is not valid");
  }
  const Key& key = *found.key;
  Principal principal;
  principal.tenant = key.tenant;
  principal.role = key.role;
  principal.key = key.id;
  principal.scopes = key.scopes;
  return principal;
}

Principal Authenticator::check_token(std::string_view credential) const {
  const auto now = std::chrono::system_clock::now();
  std::optional<SessionToken> token = tokens_.read(credential);
  if (!token) throw invalid("this token of a session is not valid");
  if (token->expires <= now) throw Known("this token of a session has expired: ask for another");
  if (token->key.empty() && required()) {
    throw Known("this token was made before the server asked for keys: ask for another");
  }
  if (token->key.starts_with("jwt:") && !jwks_) {
    throw Known("this token was made with one of an identity provider, which is not asked here");
  }
  const bool of_key = !token->key.empty() && !token->key.starts_with("jwt:");
  if (of_key && !keys_.is_good(token->key, now)) {
    throw Known("the API key that this token was made with has expired or was revoked");
  }
  Principal principal;
  principal.tenant = std::move(token->tenant);
  principal.role = token->role;
  principal.key = std::move(token->key);
  principal.session = std::move(token->session);
  principal.user = std::move(token->user);
  principal.scopes = token->scopes;
  return principal;
}

awaitable<Principal> Authenticator::check_jwt(std::string_view credential) {
  const auto now = std::chrono::system_clock::now();
  if (generation_ != jwks_->generation()) verdicts_.clear();
  generation_ = jwks_->generation();
  if (const Principal* known = verdicts_.find(credential, now)) co_return *known;
  bool good = false;
  try {
    const ParsedJwt parsed = ParsedJwt::parse(credential);
    good = jwks_->verify(parsed);
    if (!good && co_await jwks_->look_again(parsed.key_id)) good = jwks_->verify(parsed);
    if (!good) throw BadToken{"no key that is known here has signed the token"};
    Claimed claimed = read_claims(parsed.claims, rules_, now);
    const Principal who = claimed.who;
    if (generation_ == jwks_->generation()) verdicts_.put(credential, std::move(claimed));
    co_return who;
  } catch (const BadToken& error) {
    if (good) throw Known{error.what()};
    throw invalid(error.what());
  }
}

// Tokens of others are asked about by nobody: they end by themselves, and soon.
bool Authenticator::still_good(const Principal& who) {
  if (who.key.empty() || who.key.starts_with("jwt:")) return true;
  keys_.refresh(std::chrono::steady_clock::now());
  return keys_.is_good(who.key, std::chrono::system_clock::now());
}

}  // namespace tb::auth
