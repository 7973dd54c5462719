// SPDX-License-Identifier: Apache-2.0
#include "auth/keyring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "os/fd.h"
#include "os/test_dir.h"

namespace tb::auth {
namespace {

using Verdict = Keyring::Verdict;
using Clock = Keyring::Clock;

class KeyringTest : public testing::Test {
 protected:
  std::string make(const std::string& tenant, Role role = Role::user, WallTime expires = {}) {
    Key key;
    key.tenant = tenant;
    key.role = role;
    key.expires = expires;
    std::string text = table_.create(key);
    id_ = key.id;
    return text;
  }
  Verdict verdict(const Keyring& keys, std::string_view text) const {
    return keys.find(text, now_).verdict;
  }

  os::TestDir dir_;
  std::string path_ = dir_ / "keys.db";
  KeyTable table_{path_};
  std::string id_;
  WallTime now_ = std::chrono::system_clock::now();
};

TEST_F(KeyringTest, FindsWhoseAKeyIs) {
  const std::string text = make("acme", Role::readonly);
  const Keyring keys{path_};
  const Keyring::Found found = keys.find(text, now_);
  ASSERT_EQ(found.verdict, Verdict::good);
  EXPECT_EQ(found.key->tenant, "acme");
  EXPECT_EQ(found.key->role, Role::readonly);
  EXPECT_EQ(found.key->id, id_);
  EXPECT_EQ(text.size(), 3u + 12 + 1 + 43);
}

TEST_F(KeyringTest, KeepsNoSecret) {
  const std::string text = make("acme");
  const std::string secret = text.substr(16);
  EXPECT_EQ(os::read_file(path_).find(secret), std::string::npos);
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(KeyringTest, RefusesWhatIsNotExactlyAKey) {
  const std::string text = make("acme");
  const std::string second = make("acme");
  const Keyring keys{path_};
  std::string mixed = text.substr(0, 16) + second.substr(16);
  for (const std::string& wrong :
       {std::string{}, std::string{"tb_"}, text.substr(1), text + "A", text.substr(0, 58), mixed,
        "TB" + text.substr(2), text + '\0', std::string(59, '_'), "tb_" + std::string(56, '_')}) {
    EXPECT_EQ(verdict(keys, wrong), Verdict::unknown) << wrong;
  }
}

TEST_F(KeyringTest, AKeyEndsWithItsTime) {
  const std::string text = make("acme", Role::user, now_ + std::chrono::seconds{10});
  const Keyring keys{path_};
  EXPECT_EQ(keys.find(text, now_ + std::chrono::seconds{9}).verdict, Verdict::good);
  EXPECT_EQ(keys.find(text, now_ + std::chrono::seconds{10}).verdict, Verdict::expired);
}

TEST_F(KeyringTest, ChangesCountAtTheNextLook) {
  Keyring keys{path_};
  EXPECT_FALSE(keys.any());
  const std::string text = make("acme");
  auto time = Clock::now();
  keys.refresh(time += std::chrono::seconds{1});
  EXPECT_EQ(verdict(keys, text), Verdict::good);
  EXPECT_TRUE(table_.revoke(id_));
  keys.refresh(time + std::chrono::milliseconds{50});  // too soon
  EXPECT_EQ(verdict(keys, text), Verdict::good);
  keys.refresh(time += std::chrono::seconds{1});
  EXPECT_EQ(verdict(keys, text), Verdict::revoked);
  EXPECT_TRUE(keys.any()) << "a server whose last key is revoked must not be open to all";
  EXPECT_TRUE(Keyring{path_}.any());
}

// The clock of a file system may stand still between two changes.
TEST_F(KeyringTest, AChangeRightAfterALookIsSeenHoweverLateTheNextOneIs) {
  Keyring keys{path_};
  auto time = Clock::now();
  for (int i = 0; i < 20; ++i) {
    const std::string text = make("acme");
    keys.refresh(time += std::chrono::hours{1});
    EXPECT_EQ(verdict(keys, text), Verdict::good);
    EXPECT_TRUE(table_.revoke(id_));
    keys.refresh(time += std::chrono::hours{1});
    EXPECT_EQ(verdict(keys, text), Verdict::revoked);
  }
}

TEST_F(KeyringTest, AFileThatRestsIsNotRead) {
  Keyring keys{path_};
  const auto reads = [&](Clock::time_point time) {
    const auto count = [] {
      const std::string text = os::read_file("/proc/thread-self/io");
      return std::stoul(text.substr(text.find("syscr: ") + 7));
    };
    const auto before = count();
    keys.refresh(time);
    return count() - before;
  };
  auto time = Clock::now() + std::chrono::seconds{1};
  const auto looked_at = reads(time);
  reads(time += std::chrono::seconds{10});  // it is as it was
  EXPECT_LT(reads(time += std::chrono::seconds{1}), looked_at);
  const std::string text = make("acme");
  keys.refresh(time += std::chrono::seconds{1});
  EXPECT_EQ(verdict(keys, text), Verdict::good);
}

TEST_F(KeyringTest, AFileWithALogOfItsOwnIsAlwaysRead) {
  const std::string text = make("acme");
  Keyring keys{path_};
  store::Connection other{path_};
  ASSERT_EQ(other.text("PRAGMA journal_mode=WAL"), "wal");
  auto time = Clock::now();
  for (int i = 0; i < 3; ++i) keys.refresh(time += std::chrono::seconds{10});
  EXPECT_EQ(verdict(keys, text), Verdict::good);
  other.run("UPDATE keys SET revoked_ms = 1, change = change + 1");
  keys.refresh(time += std::chrono::seconds{1});
  EXPECT_EQ(verdict(keys, text), Verdict::revoked);
}

TEST_F(KeyringTest, AnOlderFileThatIsCopiedOverItCountsAsItIs) {
  const std::string kept = make("acme");
  const std::string kept_id = id_;
  const std::string older = os::read_file(path_);
  const std::string later = make("acme");
  for (int i = 0; i < 3; ++i) make("acme");
  Keyring keys{path_};
  auto time = Clock::now();
  keys.refresh(time += std::chrono::seconds{1});
  EXPECT_EQ(verdict(keys, later), Verdict::good);
  {
    const os::Fd file{::open(path_.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC)};
    ASSERT_EQ(::write(file.get(), older.data(), older.size()), static_cast<ssize_t>(older.size()));
  }
  KeyTable restored{path_};
  EXPECT_TRUE(restored.revoke(kept_id));
  Key key;
  key.tenant = "acme";
  const std::string next = restored.create(key);
  keys.refresh(time += std::chrono::seconds{1});
  EXPECT_EQ(verdict(keys, later), Verdict::unknown) << "it is not in the file";
  EXPECT_EQ(verdict(keys, kept), Verdict::revoked);
  EXPECT_EQ(verdict(keys, next), Verdict::good);
}

TEST_F(KeyringTest, AFileThatIsBeingWrittenIsReadLater) {
  Keyring keys{path_};
  store::Connection other{path_};
  other.run("BEGIN EXCLUSIVE");
  auto time = Clock::now() + std::chrono::seconds{1};
  keys.refresh(time);
  other.run("ROLLBACK");
  const std::string text = make("acme");
  keys.refresh(time += std::chrono::seconds{1});
  EXPECT_EQ(verdict(keys, text), Verdict::good);
}

TEST_F(KeyringTest, RevokingWhatIsNotThereSaysSo) {
  make("acme");
  EXPECT_FALSE(table_.revoke("000000000000"));
  EXPECT_TRUE(table_.revoke(id_));
  const WallTime first = table_.list()[0].revoked;
  EXPECT_TRUE(table_.revoke(id_));
  EXPECT_EQ(table_.list()[0].revoked, first);
}

TEST_F(KeyringTest, NamesAreChecked) {
  for (const char* tenant : {"a b", "a/b", "\xc3\xa9", "a\nb"}) EXPECT_THROW(make(tenant), Error);
  EXPECT_THROW(make(std::string(65, 'a')), Error);
  EXPECT_EQ(table_.list().size(), 0u);
}

TEST_F(KeyringTest, ADamagedFileLetsNobodyIn) {
  os::replace_file(path_, "this is no database at all, whatever it is called", 0600);
  EXPECT_THROW(Keyring{path_}, Error);
}

TEST(Scopes, AreWordsWithCommas) {
  EXPECT_EQ(parse_scopes(""), kAllScopes);
  EXPECT_EQ(to_text(parse_scopes("metrics,volumes")), "volumes,metrics");
  EXPECT_EQ(to_text(kAllScopes), "");
  for (const char* wrong : {"metric", "metrics,", ",", " metrics"}) {
    EXPECT_THROW(parse_scopes(wrong), Error) << wrong;
  }
}

}  // namespace
}  // namespace tb::auth
