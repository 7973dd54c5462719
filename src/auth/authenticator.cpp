// SPDX-License-Identifier: Apache-2.0
#include "auth/authenticator.h"

namespace tb::auth {
namespace {

using Verdict = Keyring::Verdict;

constexpr std::size_t kMaxCredential = 16 << 10;

http::HttpError refusal(const std::string& text, const char* error) {
  std::string challenge = "Bearer realm=\"threadbox\"";
  if (*error) challenge += std::string{", error=\""} + error + "\"";
  return http::HttpError{401, text, {{"WWW-Authenticate", std::move(challenge)}}};
}

http::HttpError invalid(const std::string& text) { return refusal(text, "invalid_token"); }

}  // namespace

std::optional<std::string_view> find_credential(const http::Headers& headers) {
  const std::size_t bearers = headers.count("Authorization");
  const std::size_t keys = headers.count("X-API-Key");
  if (bearers + keys == 0) return std::nullopt;
  if (bearers + keys > 1) throw invalid("more than one credential: send one of them");
  std::string_view value = *headers.find(bearers ? "Authorization" : "X-API-Key");
  if (bearers) {
    constexpr std::string_view kScheme = "Bearer ";
    if (value.size() < kScheme.size() ||
        !http::equal_ignoring_case(value.substr(0, kScheme.size()), kScheme)) {
      throw invalid("the Authorization header must be: Bearer and an API key or a token");
    }
    value.remove_prefix(kScheme.size());
    while (value.starts_with(' ')) value.remove_prefix(1);
  }
  if (value.empty()) throw invalid("the credential is empty");
  if (value.size() > kMaxCredential) throw invalid("the credential is too long");
  return value;
}

Authenticator::Authenticator(Settings settings) : keys_(settings.keys) {}

awaitable<Principal> Authenticator::authenticate(const http::Request& request, bool open) {
  keys_.refresh(std::chrono::steady_clock::now());
  if (!required()) co_return Principal{};
  Principal stranger;
  stranger.role = Role::readonly;
  stranger.stranger = true;
  try {
    if (const auto credential = find_credential(request.headers)) co_return check(*credential);
  } catch (const http::HttpError&) {
    if (!open) throw;
  }
  if (open) co_return stranger;
  throw refusal(
      "this server asks for an API key: send \"Authorization: Bearer <key>\" or \"X-API-Key: "
      "<key>\" (the operator makes keys with `threadbox keys create`)",
      "");
}

Principal Authenticator::check(std::string_view credential) const {
  const Keyring::Found found = keys_.find(credential, std::chrono::system_clock::now());
  switch (found.verdict) {
    case Verdict::good: break;
    case Verdict::expired: throw invalid("this API key has expired: ask the operator for another");
    case Verdict::revoked: throw invalid("this API key was revoked: ask the operator for another");
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

}  // namespace tb::auth
