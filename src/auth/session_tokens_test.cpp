// SPDX-License-Identifier: Apache-2.0
#include "auth/session_tokens.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

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

// Each in a process of its own, all let go at once, as workers that share the directory.
TEST(SessionTokens, OfServersThatStartAtOnceAreOneAnothers) {
  constexpr int kServers = 16;
  const os::TestDir dir;
  int gate[2];
  int told[2];
  ASSERT_EQ(::pipe(gate), 0);
  ASSERT_EQ(::pipe(told), 0);
  for (int i = 0; i < kServers; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child > 0) continue;
    ::close(gate[1]);
    char nothing = 0;
    const bool let_go = ::read(gate[0], &nothing, 1) == 0;
    const std::string text = SessionTokens{dir / "secret"}.sign(make()) + "\n";
    const bool written = ::write(told[1], text.data(), text.size()) > 0;
    ::_exit(let_go && written ? 0 : 1);
  }
  ::close(gate[0]);
  ::close(gate[1]);
  ::close(told[1]);
  std::string all;
  char part[4096];
  for (ssize_t got = 0; (got = ::read(told[0], part, sizeof part)) > 0;) {
    all.append(part, static_cast<std::size_t>(got));
  }
  ::close(told[0]);
  for (int i = 0; i < kServers; ++i) ::wait(nullptr);
  const std::string expected = SessionTokens{dir / "secret"}.sign(make()) + "\n";
  std::string same;
  for (int i = 0; i < kServers; ++i) same += expected;
  EXPECT_EQ(all, same);
  const auto files = std::filesystem::directory_iterator{dir.path()};
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "nothing else is left";
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
