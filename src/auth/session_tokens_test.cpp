// SPDX-License-Identifier: Apache-2.0
#include "auth/session_tokens.h"

#include <gtest/gtest.h>

#include "os/fd.h"
#include "os/test_dir.h"

namespace tb::auth {
namespace {

SessionToken make() {
  SessionToken token;
  token.session = "7190db9a-e7c5-40f5-a3f5-49947e2bdb45";
  token.tenant = "acme";
  token.role = Role::readonly;
  token.key = "0123456789ab";
  token.scopes = static_cast<Scopes>(Scope::sessions);
  token.expires = WallTime{std::chrono::seconds{1'800'000'000}};
  return token;
}

TEST(SessionTokens, SayWhatWasSigned) {
  const os::TestDir dir;
  const std::string text = SessionTokens{dir / "secret"}.sign(make());
  const auto read = SessionTokens{dir / "secret"}.read(text);  // the secret outlives the server
  ASSERT_TRUE(read);
  EXPECT_EQ(read->session, make().session);
  EXPECT_EQ(read->tenant, "acme");
  EXPECT_EQ(read->role, Role::readonly);
  EXPECT_EQ(read->key, make().key);
  EXPECT_EQ(read->scopes, make().scopes);
  EXPECT_EQ(read->expires, make().expires);
}

TEST(SessionTokens, OfAnotherSecretOrChangedAreNothing) {
  const os::TestDir dir;
  const SessionTokens ours{dir / "ours"};
  const SessionTokens theirs{dir / "theirs"};
  const std::string text = ours.sign(make());
  EXPECT_FALSE(theirs.read(text));
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_FALSE(ours.read(changed)) << i;
  }
  for (const std::string& wrong :
       {std::string{}, std::string{"tbs_"}, std::string{"tbs_."}, text + "A",
        text.substr(0, text.size() - 1), text + ".", text.substr(0, text.find('.') + 1)}) {
    EXPECT_FALSE(ours.read(wrong)) << wrong;
  }
}

TEST(SessionTokens, ASecretThatIsNoneIsRefused) {
  const os::TestDir dir;
  os::replace_file(dir / "secret", "short\n", 0600);
  EXPECT_THROW(SessionTokens{dir / "secret"}, Error);
}

}  // namespace
}  // namespace tb::auth
