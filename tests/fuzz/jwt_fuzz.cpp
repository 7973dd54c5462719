// SPDX-License-Identifier: Apache-2.0
// Tokens as strangers write them: one that is read is spelled in one way only, and whom its claims
// name is somebody who can be.
#include <cstdlib>
#include <string_view>

#include "auth/base64url.h"
#include "auth/jwt.h"

namespace {

using namespace tb::auth;

const WallTime kNow{std::chrono::seconds{1'800'000'000}};

void check_claims(std::string_view text) {
  JwtRules rules;
  rules.issuer = "i";
  rules.audience = "a";
  const Claimed claimed = read_claims(text, rules, kNow);
  if (claimed.who.tenant.empty() || !is_tenant_name(claimed.who.tenant)) std::abort();
  if (claimed.expires <= kNow || claimed.who.operates()) std::abort();
  if (claimed.who.user.find('\0') != std::string::npos) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  try {
    const ParsedJwt parsed = ParsedJwt::parse(text);
    const std::string again = parsed.signed_text + "." + base64url(parsed.signature);
    if (again != text) std::abort();
  } catch (const BadToken&) {
  }
  try {
    check_claims(text);
  } catch (const BadToken&) {
  }
  return 0;
}
