// SPDX-License-Identifier: Apache-2.0
#include "auth/authenticator.h"

#include <gtest/gtest.h>

#include "auth/test_signer.h"
#include "base/test_loop.h"
#include "os/fd.h"
#include "os/test_dir.h"

namespace tb::auth {
namespace {

http::Headers headers(const std::vector<http::Header>& fields) {
  http::Headers all;
  for (const http::Header& field : fields) all.add(field.name, field.value);
  return all;
}

TEST(Credential, IsInOneOfTwoHeaders) {
  EXPECT_EQ(find_credential(headers({})), std::nullopt);
  EXPECT_EQ(find_credential(headers({{"Authorization", "Bearer x"}})), "x");
  EXPECT_EQ(find_credential(headers({{"authorization", "bEARER  x"}})), "x");
  EXPECT_EQ(find_credential(headers({{"X-Api-Key", "x"}})), "x");
  const auto page = headers({{"Sec-WebSocket-Protocol", "threadbox, threadbox.token.x"}});
  EXPECT_EQ(find_credential(page), "x");
}

TEST(Credential, ThatCouldBeReadInTwoWaysIsRefused) {
  for (const auto& fields : std::vector<std::vector<http::Header>>{
           {{"Authorization", "Bearer x"}, {"Authorization", "Bearer x"}},
           {{"Authorization", "Bearer x"}, {"X-API-Key", "x"}},
           {{"X-API-Key", "x"}, {"x-api-key", "y"}},
           {{"X-API-Key", "x"}, {"Sec-WebSocket-Protocol", "threadbox.token.x"}},
           {{"Sec-WebSocket-Protocol", "threadbox.token.x,threadbox.token.y"}},
           {{"Sec-WebSocket-Protocol", "threadbox.token."}},
           {{"Authorization", "Basic eDp4"}},
           {{"Authorization", "Bearer"}},
           {{"Authorization", "Bearer "}},
           {{"Authorization", "Bearerx"}},
           {{"Authorization", ""}},
           {{"X-API-Key", ""}},
           {{"X-API-Key", std::string(20000, 'x')}}}) {
    EXPECT_THROW(find_credential(headers(fields)), http::HttpError);
  }
}

class AuthenticatorTest : public testing::Test {
 protected:
  Principal ask(Authenticator& guard, const std::string& credential, bool open = false) {
    http::Request request;
    if (!credential.empty()) request.headers.add("Authorization", "Bearer " + credential);
    return loop_.run(guard.authenticate(request, open));
  }
  int refusal(Authenticator& guard, const std::string& credential) {
    try {
      ask(guard, credential);
    } catch (const http::HttpError& error) {
      EXPECT_EQ(error.headers().at(0).name, "WWW-Authenticate");
      EXPECT_EQ(error.text().find(credential.empty() ? "?" : credential), std::string::npos);
      return error.status();
    }
    return 200;
  }

  TestLoop loop_;
  os::TestDir dir_;
  Authenticator make(std::optional<JwtSettings> jwt = std::nullopt) {
    return Authenticator{loop_.executor(), {path_, dir_ / "secret", std::move(jwt)}};
  }
  std::string path_ = dir_ / "keys.db";
};

TEST_F(AuthenticatorTest, WithoutKeysEverybodyIsTheAdmin) {
  Authenticator guard = make();
  EXPECT_FALSE(guard.required());
  const Principal who = ask(guard, "");
  EXPECT_EQ(who.role, Role::admin);
  EXPECT_EQ(who.tenant, "");
  EXPECT_EQ(ask(guard, "whatever").role, Role::admin);
}

TEST_F(AuthenticatorTest, WithKeysNobodyComesInWithout) {
  Key key;
  key.tenant = "acme";
  const std::string text = KeyTable{path_}.create(key);
  Authenticator guard = make();
  EXPECT_TRUE(guard.required());
  EXPECT_EQ(refusal(guard, ""), 401);
  EXPECT_EQ(refusal(guard, text + "x"), 401);
  const Principal who = ask(guard, text);
  EXPECT_EQ(who.tenant, "acme");
  EXPECT_EQ(who.role, Role::user);
  EXPECT_EQ(who.key, key.id);
  EXPECT_FALSE(who.operates());
  EXPECT_TRUE(ask(guard, "", true).stranger);
  EXPECT_TRUE(ask(guard, "wrong", true).stranger);
  EXPECT_FALSE(ask(guard, text, true).stranger);
}

TEST_F(AuthenticatorTest, ATokenOfASessionOpensNothingElse) {
  Key key;
  key.tenant = "acme";
  KeyTable table{path_};
  table.create(key);
  Authenticator guard = make();
  SessionToken token;
  token.session = "s";
  token.tenant = "acme";
  token.key = key.id;
  token.expires = std::chrono::system_clock::now() + std::chrono::seconds{60};
  const std::string text = guard.tokens().sign(token);
  const Principal who = ask(guard, text);
  EXPECT_EQ(who.session, "s");
  EXPECT_EQ(who.tenant, "acme");
  EXPECT_EQ(who.role, Role::user);
  token.expires = std::chrono::system_clock::now();
  EXPECT_EQ(refusal(guard, guard.tokens().sign(token)), 401);
  EXPECT_EQ(refusal(guard, text + "A"), 401);
  EXPECT_TRUE(table.revoke(key.id));
  Authenticator later = make();
  EXPECT_EQ(refusal(later, text), 401) << "it ends with its key";
}

TEST_F(AuthenticatorTest, ATokenNarrowsWhereNobodyIsAsked) {
  Authenticator guard = make();
  SessionToken token;
  token.session = "s";
  token.expires = std::chrono::system_clock::now() + std::chrono::seconds{60};
  const std::string text = guard.tokens().sign(token);
  EXPECT_EQ(ask(guard, text).session, "s");
  EXPECT_EQ(refusal(guard, "tbs_made.up"), 401);
  Key key;
  KeyTable{path_}.create(key);
  Authenticator later = make();
  EXPECT_EQ(refusal(later, text), 401) << "anybody could have made it";
}

TEST_F(AuthenticatorTest, WhoTriesManyIsToldToWaitAndNobodyElse) {
  Key key;
  const std::string text = KeyTable{path_}.create(key);
  Authenticator guard = make();
  int last = 0;
  for (int i = 0; i < 200; ++i) {
    try {
      ask(guard, "wrong");
    } catch (const http::HttpError& error) {
      last = error.status();
    }
  }
  EXPECT_EQ(last, 429);
  EXPECT_EQ(ask(guard, text).key, key.id);
}

TEST_F(AuthenticatorTest, TokensOfAProviderNameTheirTenant) {
  const TestSigner signer{"ES256"};
  os::replace_file(dir_ / "jwks", signer.key_set(), 0600);
  JwtSettings jwt;
  jwt.keys.file = dir_ / "jwks";
  jwt.rules.issuer = "i";
  jwt.rules.audience = "a";
  Authenticator guard = make(jwt);
  EXPECT_TRUE(guard.required()) << "without a single API key";
  EXPECT_EQ(refusal(guard, ""), 401);
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  boost::json::object claims{{"iss", "i"}, {"aud", "a"}, {"exp", now + 60}, {"tenant", "acme"}};
  const std::string token = signer.sign(claims);
  EXPECT_EQ(ask(guard, token).tenant, "acme");
  EXPECT_EQ(ask(guard, token).tenant, "acme");
  claims["iss"] = "j";
  EXPECT_EQ(refusal(guard, signer.sign(claims)), 401);
  EXPECT_EQ(refusal(guard, TestSigner{"ES256"}.sign(claims)), 401);
  // What was known to be good is looked at again when the keys are others.
  os::replace_file(dir_ / "jwks", TestSigner{"ES256"}.key_set(), 0600);
  Authenticator other = make(jwt);
  EXPECT_EQ(refusal(other, token), 401);
}

}  // namespace
}  // namespace tb::auth
