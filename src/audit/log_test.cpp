// SPDX-License-Identifier: Apache-2.0
#include "audit/log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "audit/reader.h"
#include "base/error.h"
#include "base/log.h"
#include "os/test_dir.h"

namespace tb::audit {
namespace {

class AuditLogTest : public testing::Test {
 protected:
  AuditLogTest() { set_log(LogLevel::off, false); }

  Log::Settings settings(Bytes max_bytes = 1_MiB) {
    Log::Settings settings;
    settings.dir = dir_.path();
    settings.max_bytes = max_bytes;
    settings.keep = 2;
    return settings;
  }
  static Entry entry(const std::string& session, int status = 200) {
    Entry one;
    one.at = std::chrono::system_clock::now();
    one.action = "POST /execute";
    one.status = status;
    one.session = session;
    return one;
  }
  std::vector<std::uint64_t> numbers(const Query& query = {}) {
    std::vector<std::uint64_t> list;
    for (const auto& row : read_back(dir_.path(), 2, query).entries) {
      list.push_back(row.at("number").to_number<std::uint64_t>());
    }
    return list;
  }

  os::TestDir dir_;
};

TEST_F(AuditLogTest, WhatWasToldIsThereAtTheEndAndNumbersGoOn) {
  {
    Log log{settings(), {}};
    for (int i = 0; i < 3; ++i) log.write(entry("s"));
  }
  struct stat info{};
  ASSERT_EQ(::stat(file_path(dir_.path(), 0).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  Log log{settings(), {}};
  log.write(entry("s"));
  log.flush(5s);
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{4, 3, 2, 1}));
  EXPECT_EQ(log.counts().written, 1u);
  EXPECT_EQ(log.counts().lost, 0u);
}

TEST_F(AuditLogTest, FilesHaveASizeAndANumber) {
  Log log{settings(2000_B), {}};
  for (int i = 0; i < 100; ++i) {
    log.write(entry("session"));
    log.flush(5s);
  }
  EXPECT_TRUE(std::filesystem::exists(file_path(dir_.path(), 2)));
  EXPECT_FALSE(std::filesystem::exists(file_path(dir_.path(), 3)));
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_LE(std::filesystem::file_size(file_path(dir_.path(), i)), 2000u);
  }
  const std::vector<std::uint64_t> kept = numbers();
  EXPECT_EQ(kept.front(), 100u);
  for (std::size_t i = 1; i < kept.size(); ++i) EXPECT_EQ(kept[i], kept[i - 1] - 1);
}

TEST_F(AuditLogTest, ATornLineIsPassedOver) {
  std::ofstream{file_path(dir_.path(), 0)}
      << "{\"number\":41,\"action\":\"x\"}\n{\"number\":42,\"ac";
  Log log{settings(), {}};
  log.write(entry("s"));
  log.flush(5s);
  EXPECT_EQ(numbers(), (std::vector<std::uint64_t>{42, 41})) << "the torn one was never written";
}

TEST_F(AuditLogTest, WhatIsTooMuchIsLostAndTheLogSaysSo) {
  Log::Settings small = settings();
  small.queue = 10;
  small.linger = 1h;
  Log log{small, {}};
  for (int i = 0; i < 25; ++i) log.write(entry("s"));
  log.flush(5s);
  EXPECT_EQ(log.counts().written, 10u);
  EXPECT_EQ(log.counts().lost, 15u);
  const Page page = read_back(dir_.path(), 2, {});
  ASSERT_EQ(page.entries.size(), 11u);
  EXPECT_EQ(page.entries[0].at("action").as_string(), "audit.lost");
  EXPECT_EQ(page.entries[0].at("lost").to_number<int>(), 15);
  EXPECT_EQ(page.entries[0].at("number").to_number<int>(), 11);
}

TEST_F(AuditLogTest, AFileThatCantBeWrittenIsNoEnd) {
  Log::Settings bounded = settings(300_B);
  Log log{bounded, {}};
  log.write(entry("s"));
  log.flush(5s);
  // In the way of the next rename, and of root, too.
  std::filesystem::create_directories(file_path(dir_.path(), 1) + "/x");
  for (int i = 0; i < 4; ++i) {
    log.write(entry("s"));
    log.flush(5s);
  }
  EXPECT_GT(log.counts().lost, 0u);
  EXPECT_NE(log.counts().problem, "");
  const std::uint64_t lost = log.counts().lost;
  std::filesystem::remove_all(file_path(dir_.path(), 1));
  log.write(entry("s"));
  log.flush(5s);
  EXPECT_EQ(log.counts().problem, "");
  EXPECT_EQ(log.counts().lost, lost);
  Query losses;
  losses.action = "audit.lost";
  EXPECT_EQ(numbers(losses).size(), 1u);
}

TEST_F(AuditLogTest, CommandsAreRedactedBeforeTheyAreWritten) {
  Log log{settings(), Redactor{{"secret-\\S+"}}};
  Entry one = entry("s");
  one.command = "echo secret-1";
  log.write(one);
  log.flush(5s);
  std::ifstream file{file_path(dir_.path(), 0)};
  const std::string text{std::istreambuf_iterator<char>{file}, {}};
  EXPECT_NE(text.find("echo [redacted]"), std::string::npos) << text;
  EXPECT_EQ(text.find("secret-1"), std::string::npos);
}

TEST_F(AuditLogTest, ADirectoryThatIsNotThereIsSaid) {
  Log::Settings wrong = settings();
  wrong.dir += "/nowhere";
  EXPECT_THROW((Log{wrong, {}}), Error);
}

TEST_F(AuditLogTest, QueriesFilterAndTurnPages) {
  Log log{settings(5000_B), {}};
  for (int i = 0; i < 50; ++i) {
    log.write(entry(i % 2 ? "odd" : "even", i % 5 ? 200 : 404));
    log.flush(5s);
  }
  Query query;
  query.session = "odd";
  query.result = "refused";
  EXPECT_EQ(numbers(query), (std::vector<std::uint64_t>{46, 36, 26, 16, 6}));
  query = {};
  query.limit = 7;
  std::vector<std::uint64_t> all;
  for (std::optional<std::uint64_t> before = UINT64_MAX; before;) {
    query.before = before;
    const Page page = read_back(dir_.path(), 2, query);
    for (const auto& row : page.entries) all.push_back(row.at("number").to_number<std::uint64_t>());
    before = page.next;
  }
  EXPECT_EQ(all, numbers());
  EXPECT_GT(all.size(), 21u);
  query = {};
  query.action = "/execute";
  query.most = 1000_B;
  const Page page = read_back(dir_.path(), 2, query);
  EXPECT_LT(page.entries.size(), 20u) << "no more is looked at";
  EXPECT_TRUE(page.next);
}

TEST_F(AuditLogTest, TimesFilter) {
  Log log{settings(), {}};
  const auto start = std::chrono::system_clock::from_time_t(1'000'000'000);
  for (int i = 0; i < 5; ++i) {
    Entry one = entry("s");
    one.at = start + std::chrono::seconds{i};
    log.write(one);
  }
  log.flush(5s);
  Query query;
  query.since = start + 1s;
  query.until = start + 3s;
  EXPECT_EQ(numbers(query), (std::vector<std::uint64_t>{4, 3, 2}));
}

}  // namespace
}  // namespace tb::audit
