// SPDX-License-Identifier: Apache-2.0
#include "auth/jwt.h"

#include <algorithm>
#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <cmath>
#include <set>

#include "auth/base64url.h"
#include "base/sha256.h"

namespace tb::auth {
namespace json = boost::json;
namespace {

constexpr std::size_t kLongest = 8 << 10;
constexpr std::size_t kLongestName = 256;
constexpr std::size_t kLongestSubject = 255;  // as OpenID Connect has it
constexpr double kLatest = 1e11;              // seconds; some thousand years

// A name that stands twice means one thing to one reader and another to the next. Boost.JSON takes
// the last one; this finds them.
struct TwiceFinder {
  static constexpr std::size_t max_object_size = 1000;
  static constexpr std::size_t max_array_size = 1000;
  static constexpr std::size_t max_key_size = 4096;
  static constexpr std::size_t max_string_size = kLongest;
  using Failure = boost::system::error_code;

  bool on_document_begin(Failure&) { return true; }
  bool on_document_end(Failure&) { return true; }
  bool on_object_begin(Failure&) {
    names.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t, Failure&) {
    names.pop_back();
    return true;
  }
  bool on_array_begin(Failure&) { return true; }
  bool on_array_end(std::size_t, Failure&) { return true; }
  bool on_key_part(json::string_view part, std::size_t, Failure&) {
    name.append(part.data(), part.size());
    return true;
  }
  bool on_key(json::string_view part, std::size_t, Failure&) {
    name.append(part.data(), part.size());
    if (!names.back().insert(std::exchange(name, {})).second) twice = true;
    return true;
  }
  bool on_string_part(json::string_view, std::size_t, Failure&) { return true; }
  bool on_string(json::string_view, std::size_t, Failure&) { return true; }
  bool on_number_part(json::string_view, Failure&) { return true; }
  bool on_int64(std::int64_t, json::string_view, Failure&) { return true; }
  bool on_uint64(std::uint64_t, json::string_view, Failure&) { return true; }
  bool on_double(double, json::string_view, Failure&) { return true; }
  bool on_bool(bool, Failure&) { return true; }
  bool on_null(Failure&) { return true; }
  bool on_comment_part(json::string_view, Failure&) { return true; }
  bool on_comment(json::string_view, Failure&) { return true; }

  std::vector<std::set<std::string>> names;
  std::string name;
  bool twice = false;
};

json::object read_object(std::string_view text, const char* what) {
  boost::system::error_code failed;
  json::basic_parser<TwiceFinder> finder{json::parse_options{}};
  finder.write_some(false, text.data(), text.size(), failed);
  if (!failed && finder.handler().twice) {
    throw BadToken{std::string{"a name stands twice in the "} + what + " of the token"};
  }
  json::value value = failed ? json::value{} : json::parse({text.data(), text.size()}, failed);
  if (failed || !value.is_object()) {
    throw BadToken{std::string{"the "} + what + " of the token is no JSON object"};
  }
  return std::move(value.get_object());
}

std::string text_of(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains({name.data(), name.size()});
  if (!value) return {};
  if (!value->is_string() || value->get_string().size() > kLongestName) {
    throw BadToken{"\"" + std::string{name} + "\" of the token is no short text"};
  }
  std::string text{value->get_string()};
  if (text.find('\0') != text.npos) throw BadToken{"the token has a NUL in it"};
  return text;
}

Algorithm algorithm_of(const json::object& head) {
  const std::string name = text_of(head, "alg");
  if (name == "HS256") return Algorithm::hs256;
  if (name == "RS256") return Algorithm::rs256;
  if (name == "ES256") return Algorithm::es256;
  if (name == "EdDSA") return Algorithm::eddsa;
  throw BadToken{"the token's algorithm must be HS256, RS256, ES256 or EdDSA"};
}

std::string decode(std::string_view part) {
  auto bytes = from_base64url(part);
  if (!bytes) throw BadToken{"the token is no base64url without padding"};
  return std::move(*bytes);
}

std::optional<double> time_of(const json::object& claims, const char* name) {
  const json::value* value = claims.if_contains(name);
  if (!value) return std::nullopt;
  boost::system::error_code failed;
  const double seconds = value->is_number() ? value->to_number<double>(failed) : -1;
  if (failed || !std::isfinite(seconds) || seconds < 0 || seconds > kLatest) {
    throw BadToken{std::string{"\""} + name + "\" of the token is no time"};
  }
  return seconds;
}

// Of what the clock can't count to, the latest that it can.
WallTime time_point(double seconds) {
  const double counted = std::min(seconds, 8e9);
  return WallTime{std::chrono::milliseconds{static_cast<std::int64_t>(counted * 1000)}};
}

// Until when it is good.
WallTime check_times(const json::object& claims, const JwtRules& rules, WallTime now) {
  const auto expires = time_of(claims, "exp");
  if (!expires) throw BadToken{"the token has no \"exp\": one that never ends is not taken"};
  if (time_point(*expires) + rules.leeway <= now) throw BadToken{"the token has expired"};
  for (const char* name : {"nbf", "iat"}) {
    const auto from = time_of(claims, name);
    if (from && time_point(*from) > now + rules.leeway) {
      throw BadToken{"the token is not good yet: look at the clocks"};
    }
  }
  return time_point(*expires) + rules.leeway;
}

bool is_for(const json::object& claims, const std::string& audience) {
  const json::value* value = claims.if_contains("aud");
  if (!value) return false;
  if (value->is_string()) return value->get_string() == audience;
  if (!value->is_array()) return false;
  const json::array& list = value->get_array();
  return std::any_of(list.begin(), list.end(), [&](const json::value& one) {
    return one.is_string() && one.get_string() == audience;
  });
}

std::string tenant_of(const json::object& claims, const JwtRules& rules) {
  if (rules.tenant_claim.empty()) return {};
  const std::string tenant = text_of(claims, rules.tenant_claim);
  if (tenant.empty() || !is_tenant_name(tenant)) {
    throw BadToken{"the token's claim \"" + rules.tenant_claim + "\" names no tenant"};
  }
  return tenant;
}

// One, or a list of which the strongest that is known counts.
Role role_of(const json::object& claims, const JwtRules& rules) {
  const json::value* value = claims.if_contains(rules.role_claim);
  if (!value) return Role::user;
  std::optional<Role> strongest;
  const auto take = [&](const json::value& one) {
    const auto role = one.is_string()
                          ? find_role({one.get_string().data(), one.get_string().size()})
                          : std::nullopt;
    if (role && (!strongest || *role > *strongest)) strongest = role;
  };
  if (value->is_array()) {
    for (const json::value& one : value->get_array()) take(one);
  } else {
    take(*value);
  }
  if (!strongest) {
    throw BadToken{"the token's claim \"" + rules.role_claim +
                   "\" must be admin, user or readonly"};
  }
  return *strongest;
}

}  // namespace

ParsedJwt ParsedJwt::parse(std::string_view token) {
  if (token.size() > kLongest) throw BadToken{"the token is longer than 8 KiB"};
  const std::size_t first = token.find('.');
  const std::size_t second = first == token.npos ? first : token.find('.', first + 1);
  if (second == token.npos || token.find('.', second + 1) != token.npos) {
    throw BadToken{"the credential is neither an API key nor a token"};
  }
  ParsedJwt parsed;
  const json::object head = read_object(decode(token.substr(0, first)), "head");
  // Something that must be understood, and is not.
  if (head.contains("crit")) throw BadToken{"the token has \"crit\", which nothing here knows"};
  parsed.algorithm = algorithm_of(head);
  parsed.key_id = text_of(head, "kid");
  parsed.claims = decode(token.substr(first + 1, second - first - 1));
  parsed.signature = decode(token.substr(second + 1));
  parsed.signed_text = std::string{token.substr(0, second)};
  return parsed;
}

Claimed read_claims(std::string_view text, const JwtRules& rules, WallTime now) {
  const json::object claims = read_object(text, "claims");
  Claimed claimed;
  claimed.expires = check_times(claims, rules, now);
  if (text_of(claims, "iss") != rules.issuer) throw BadToken{"the token has another issuer"};
  if (!is_for(claims, rules.audience)) throw BadToken{"the token is for another audience"};
  claimed.who.tenant = tenant_of(claims, rules);
  claimed.who.role = role_of(claims, rules);
  claimed.who.user = text_of(claims, "sub");
  if (claimed.who.user.size() > kLongestSubject) {
    throw BadToken{"the token's \"sub\" is longer than 255 bytes"};
  }
  claimed.who.key = "jwt:" + claimed.who.user;
  claimed.who.expires = claimed.expires;
  return claimed;
}

const Principal* VerdictCache::find(std::string_view token, WallTime now) {
  const auto hash = sha256(token);
  const std::string_view digest{reinterpret_cast<const char*>(hash.data()), hash.size()};
  const auto found = rows_.find(digest);
  if (found == rows_.end()) return nullptr;
  const auto row = found->second;
  if (row->verdict.expires <= now) {
    rows_.erase(found);
    order_.erase(row);
    return nullptr;
  }
  order_.splice(order_.begin(), order_, row);
  return &row->verdict.who;
}

void VerdictCache::put(std::string_view token, Claimed verdict) {
  const auto hash = sha256(token);
  std::string digest{reinterpret_cast<const char*>(hash.data()), hash.size()};
  if (rows_.contains(digest)) return;
  while (order_.size() >= most_) {
    rows_.erase(order_.back().digest);
    order_.pop_back();
  }
  order_.push_front({std::move(digest), std::move(verdict)});
  rows_.emplace(order_.front().digest, order_.begin());
}

void VerdictCache::clear() {
  rows_.clear();
  order_.clear();
}

}  // namespace tb::auth
