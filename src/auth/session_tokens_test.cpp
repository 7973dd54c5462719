// SPDX-License-Identifier: Apache-2.0
#include "auth/session_tokens.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
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

// In a process of its own; it waits until the gate is closed by whoever holds the other end, tells
// what it signs, and never comes back.
void start_server(const std::string& secret, int gate, int held, int told) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child > 0) return;
  bool good = false;
  try {
    ::close(held);
    char nothing = 0;
    const bool let_go = ::read(gate, &nothing, 1) == 0;
    const std::string text = SessionTokens{secret}.sign(make()) + "\n";
    good = let_go && ::write(told, text.data(), text.size()) > 0;
  } catch (...) {
  }
  ::_exit(good ? 0 : 1);
}

// What servers that are let go at once say, a line each.
std::string start_at_once(int count, const std::string& secret) {
  int gate[2];
  int told[2];
  TB_ASSERT(::pipe(gate) == 0 && ::pipe(told) == 0);
  for (int i = 0; i < count; ++i) start_server(secret, gate[0], gate[1], told[1]);
  for (const int fd : {gate[0], gate[1], told[1]}) ::close(fd);
  std::string all;
  char part[4096];
  for (ssize_t got = 0; (got = ::read(told[0], part, sizeof part)) > 0;) {
    all.append(part, static_cast<std::size_t>(got));
  }
  ::close(told[0]);
  for (int i = 0; i < count; ++i) ::wait(nullptr);
  return all;
}

// Workers of a cluster share the directory.
TEST(SessionTokens, OfServersThatStartAtOnceAreOneAnothers) {
  constexpr int kServers = 8;
  for (int round = 0; round < 25; ++round) {
    const os::TestDir dir;
    const std::string all = start_at_once(kServers, dir / "secret");
    const std::string one = SessionTokens{dir / "secret"}.sign(make()) + "\n";
    std::string expected;
    for (int i = 0; i < kServers; ++i) expected += one;
    ASSERT_EQ(all, expected) << "in round " << round;
    const auto files = std::filesystem::directory_iterator{dir.path()};
    ASSERT_EQ(std::distance(begin(files), end(files)), 1) << "nothing else is left";
  }
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
