// SPDX-License-Identifier: Apache-2.0
#include "auth/authenticator.h"

#include <gtest/gtest.h>

#include "base/test_loop.h"
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
}

TEST(Credential, ThatCouldBeReadInTwoWaysIsRefused) {
  for (const auto& fields : std::vector<std::vector<http::Header>>{
           {{"Authorization", "Bearer x"}, {"Authorization", "Bearer x"}},
           {{"Authorization", "Bearer x"}, {"X-API-Key", "x"}},
           {{"X-API-Key", "x"}, {"x-api-key", "y"}},
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
  std::string path_ = dir_ / "keys.db";
};

TEST_F(AuthenticatorTest, WithoutKeysEverybodyIsTheAdmin) {
  Authenticator guard{{path_}};
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
  Authenticator guard{{path_}};
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

}  // namespace
}  // namespace tb::auth
