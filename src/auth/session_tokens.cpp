// SPDX-License-Identifier: Apache-2.0
#include "auth/session_tokens.h"

#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>

#include "auth/base64url.h"
#include "auth/hmac.h"
#include "base/error.h"
#include "os/fd.h"

namespace tb::auth {
namespace json = boost::json;
namespace {

constexpr std::string_view kPrefix = "tbs_";
constexpr std::size_t kSecret = 32;
constexpr std::size_t kLongest = 4096;

std::string random_bytes(std::size_t size) {
  std::string bytes(size, '\0');
  TB_ASSERT(::getrandom(bytes.data(), size, 0) == static_cast<ssize_t>(size));
  return bytes;
}

// Workers of a cluster share the file and may start at once: it gets its name when it is whole, and
// only if there is none. Who comes second has the first one's.
void make_secret(const std::string& path) {
  const std::string own = path + "." + base64url(random_bytes(12));
  os::replace_file(own, base64url(random_bytes(kSecret)) + "\n", 0600);
  const int failed = ::link(own.c_str(), path.c_str()) == 0 ? 0 : errno;
  ::unlink(own.c_str());
  if (failed == 0 || failed == EEXIST) return;
  errno = failed;
  check(-1, "link " + path);
}

std::string load_or_make(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) != 0) make_secret(path);
  std::string text = os::read_file(path, 1024);
  while (text.ends_with('\n')) text.pop_back();
  const auto secret = from_base64url(text);
  if (!secret || secret->size() != kSecret) {
    throw Error{Code::invalid, path +
                                   " is not a secret of ours: remove it, and a new one is made "
                                   "(tokens of sessions end then)"};
  }
  return *secret;
}

}  // namespace

SessionTokens::SessionTokens(const std::string& path) : secret_(load_or_make(path)) {}

std::string SessionTokens::sign(const SessionToken& token) const {
  json::object claims{
      {"s", token.session}, {"t", token.tenant}, {"r", token.role == Role::readonly ? "r" : "w"},
      {"k", token.key},     {"c", token.scopes}, {"e", store::to_number(token.expires)}};
  if (!token.user.empty()) claims["u"] = token.user;
  const std::string text = std::string{kPrefix} + base64url(json::serialize(claims));
  return text + "." + base64url(hmac_sha256(secret_, text));
}

std::optional<SessionToken> SessionTokens::read(std::string_view text) const {
  if (!looks_like_one(text) || text.size() > kLongest) return std::nullopt;
  const std::size_t dot = text.find('.');
  if (dot == text.npos) return std::nullopt;
  const auto given = from_base64url(text.substr(dot + 1));
  if (!given || !same_bytes(*given, hmac_sha256(secret_, text.substr(0, dot)))) return std::nullopt;
  // From here on they are our own words.
  const auto words = from_base64url(text.substr(kPrefix.size(), dot - kPrefix.size()));
  boost::system::error_code failed;
  const json::value value = json::parse(words.value_or(""), failed);
  if (failed || !value.is_object()) return std::nullopt;
  const json::object& claims = value.get_object();
  SessionToken token;
  token.session = json::value_to<std::string>(claims.at("s"));
  token.tenant = json::value_to<std::string>(claims.at("t"));
  token.role = claims.at("r") == "w" ? Role::user : Role::readonly;
  token.key = json::value_to<std::string>(claims.at("k"));
  if (const json::value* user = claims.if_contains("u")) {
    token.user = json::value_to<std::string>(*user);
  }
  token.scopes = claims.at("c").to_number<Scopes>();
  token.expires = store::to_time(claims.at("e").to_number<std::int64_t>());
  return token;
}

}  // namespace tb::auth
