// SPDX-License-Identifier: Apache-2.0
// What only a store on disk can get wrong: restarts, deaths, damage, rights, a full disk.
#include "store/sqlite_store.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/log.h"
#include "base/test_loop.h"
#include "os/test_dir.h"
#include "store/schema.h"

namespace tb::store {
namespace {

namespace fs = std::filesystem;

StoredSession make(const std::string& id) {
  StoredSession session;
  session.id = id;
  session.thread = "thread " + id;
  session.policy = std::string(1000, 'p');
  session.idle = 1min;
  return session;
}

Event event(const std::string& kind) {
  Event event;
  event.kind = kind;
  return event;
}

Settings impatient() {
  Settings settings;
  settings.linger = 1ms;
  settings.retry = 1ms;
  settings.busy = 10ms;
  return settings;
}

// The exit code of a child that ran `work`; -1: it was killed.
template <class Work>
int in_child(Work work) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(work());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class SqliteStoreTest : public testing::Test {
 protected:
  SqliteStoreTest() { set_log(LogLevel::off, false); }
  ~SqliteStoreTest() override { set_log(LogLevel::info, false); }

  std::unique_ptr<SqliteStore> open(Settings settings = impatient()) {
    return std::make_unique<SqliteStore>(loop_.executor(), path_, settings);
  }
  // A file with 200 sessions and 200 events.
  void fill() {
    auto store = open();
    for (int i = 0; i < 200; ++i) {
      loop_.run(store->put(make(std::to_string(i))));
      store->record(event(std::to_string(i)));
    }
    loop_.run(store->close());
  }
  // The code and the words of the refusal.
  std::pair<Code, std::string> open_fails() {
    try {
      open();
    } catch (const Error& error) {
      return {error.code(), error.what()};
    }
    return {Code::internal, "it was opened"};
  }
  std::vector<std::string> set_aside() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator{dir_.path()}) {
      const std::string name = entry.path().filename();
      if (name.starts_with("threadbox.db.damaged-")) names.push_back(name);
    }
    return names;
  }
  void overwrite(std::streamoff offset, const std::string& bytes) const {
    std::fstream file{path_, std::ios::in | std::ios::out | std::ios::binary};
    file.seekp(offset);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  // It starts, says so, knows nothing, and works.
  void expect_fresh() {
    auto store = open();
    EXPECT_NE(store->recovered(), "");
    EXPECT_EQ(store->sessions().size(), 0u);
    loop_.run(store->put(make("new")));
    loop_.run(store->close());
    store = open();
    EXPECT_EQ(store->recovered(), "");
    EXPECT_EQ(store->sessions().size(), 1u);
  }

  TestLoop loop_;
  os::TestDir dir_;
  const std::string path_ = dir_ / "threadbox.db";
};

TEST_F(SqliteStoreTest, EverythingIsThereAgain) {
  auto store = open();
  EXPECT_EQ(store->recovered(), "");
  loop_.run(store->put(make("one")));
  loop_.run(store->put(make("two")));
  loop_.run(store->remove("one"));
  store->touch("two", WallTime{5s});
  store->record(event("first"));
  store.reset();  // without close
  store = open();
  ASSERT_EQ(store->sessions().size(), 1u);
  EXPECT_EQ(store->sessions()[0].last_activity, WallTime{5s});
  store->record(event("second"));
  const auto events = loop_.run(store->events("", 9));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].number, events[1].number + 1);
}

TEST_F(SqliteStoreTest, NobodyElseMayReadIt) {
  auto store = open();
  loop_.run(store->put(make("one")));
  for (const std::string& path : {path_, path_ + "-wal"}) {
    struct stat info{};
    ASSERT_EQ(::stat(path.c_str(), &info), 0) << path;
    EXPECT_EQ(info.st_mode & 0777, 0600u) << path;
  }
  loop_.run(store->close());
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  store = open();
  struct stat info{};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(SqliteStoreTest, WhatWasAcknowledgedSurvivesKill9) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(pipe[0]);
    asio::io_context io{1};
    SqliteStore store{io.get_executor(), path_};
    const auto write_forever = [&](int lane) -> awaitable<void> {
      for (int i = 0;; ++i) {
        const std::string id = std::to_string(lane) + "-" + std::to_string(i);
        StoredSession session = make(id);
        co_await store.put(std::move(session));
        store.record(event(id));
        (void)!::write(pipe[1], (id + "\n").data(), id.size() + 1);
      }
    };
    for (int lane = 0; lane < 8; ++lane) {
      asio::co_spawn(io, write_forever(lane), [](std::exception_ptr) { ::_exit(1); });
    }
    io.run();
    ::_exit(2);
  }
  ::close(pipe[1]);
  std::string acknowledged;
  char buffer[4096];
  for (ssize_t size = 0; (size = ::read(pipe[0], buffer, sizeof buffer)) > 0;) {
    acknowledged.append(buffer, static_cast<std::size_t>(size));
    if (std::count(acknowledged.begin(), acknowledged.end(), '\n') > 500) ::kill(child, SIGKILL);
  }
  ::close(pipe[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;

  auto store = open();
  EXPECT_EQ(store->recovered(), "");
  std::set<std::string> found;
  for (const StoredSession& session : store->sessions()) found.insert(session.id);
  std::istringstream lines{acknowledged};
  std::size_t count = 0;
  for (std::string id; std::getline(lines, id); ++count) EXPECT_TRUE(found.contains(id)) << id;
  EXPECT_GT(count, 500u);
}

TEST_F(SqliteStoreTest, AFileThatIsNoDatabaseIsSetAside) {
  std::ofstream{path_} << std::string(5000, 'x');
  expect_fresh();
  ASSERT_EQ(set_aside().size(), 1u);
  EXPECT_EQ(fs::file_size(dir_ / set_aside()[0]), 5000u);
}

TEST_F(SqliteStoreTest, ATruncatedFileIsSetAside) {
  for (const std::uintmax_t keep : {100u, 4096u, 40000u}) {
    fill();
    ASSERT_GT(fs::file_size(path_), keep);
    fs::resize_file(path_, keep);
    expect_fresh();
    fs::remove(path_);
  }
  EXPECT_EQ(set_aside().size(), 3u);
}

TEST_F(SqliteStoreTest, AnEmptyFileIsTold) {
  std::ofstream{path_};
  expect_fresh();
  EXPECT_EQ(set_aside().size(), 0u);
}

TEST_F(SqliteStoreTest, AnEmptyFileWithALogIsSetAside) {
  std::ofstream{path_};
  std::ofstream{path_ + "-wal"} << "something";
  expect_fresh();
  EXPECT_EQ(set_aside().size(), 2u);  // the log too
}

TEST_F(SqliteStoreTest, FlippedBitsNeverStopTheStart) {
  fill();
  const auto size = static_cast<std::streamoff>(fs::file_size(path_));
  std::ifstream file{path_, std::ios::binary};
  const std::string good{std::istreambuf_iterator<char>{file}, {}};
  int recovered = 0;
  for (std::streamoff offset = 0; offset < size; offset += offset < 120 ? 1 : 1021) {
    if (offset >= 60 && offset < 64) continue;  // the version, of which a newer one is refused
    overwrite(0, good);
    overwrite(offset, std::string(1, static_cast<char>(good[offset] ^ 0x15)));
    auto store = open();
    store->sessions();
    loop_.run(store->put(make("new")));
    EXPECT_EQ(store->problem(), "") << offset;
    if (!store->recovered().empty()) ++recovered;
    loop_.run(store->close());
    store.reset();
    fs::resize_file(path_, 0);
  }
  EXPECT_GT(recovered, 20);
}

TEST_F(SqliteStoreTest, DamageWhileRunningBeginsAFreshFile) {
  fill();
  // An index that has not what it should have: no check at the start sees it.
  Connection{path_}.run(
      "PRAGMA writable_schema=ON; UPDATE sqlite_schema SET sql = "
      "'CREATE UNIQUE INDEX sessions_thread ON sessions (policy)' WHERE name = 'sessions_thread'");
  auto store = open();
  EXPECT_EQ(store->recovered(), "");
  EXPECT_EQ(store->sessions().size(), 200u);
  loop_.run(store->remove("7"));
  loop_.run(store->put(make("new")));
  EXPECT_NE(store->recovered(), "");
  EXPECT_EQ(store->problem(), "");
  EXPECT_EQ(store->sessions().size(), 1u);
  EXPECT_EQ(set_aside().size(), 1u);
}

TEST_F(SqliteStoreTest, OtherTablesAreSetAside) {
  {
    std::ofstream{path_};
    Connection connection{path_};
    connection.run("CREATE TABLE sessions (x); PRAGMA user_version=1");
  }
  expect_fresh();
  EXPECT_EQ(set_aside().size(), 1u);
}

TEST_F(SqliteStoreTest, ANewerVersionIsRefusedAndLeftAlone) {
  fill();
  std::int64_t version = 0;
  {
    Connection connection{path_};
    version = connection.number("PRAGMA user_version");
    connection.run("PRAGMA user_version=99");
  }
  const auto [code, words] = open_fails();
  EXPECT_EQ(code, Code::invalid);
  EXPECT_NE(words.find("version 99"), std::string::npos) << words;
  EXPECT_EQ(set_aside().size(), 0u);
  {
    Connection{path_}.run(("PRAGMA user_version=" + std::to_string(version)).c_str());
  }
  EXPECT_EQ(open()->sessions().size(), 200u);
}

TEST_F(SqliteStoreTest, ADirectoryThatCantBeWrittenIsRefusedWithAReason) {
  fill();
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0555), 0);
  ASSERT_EQ(::chmod(path_.c_str(), 0666), 0);
  const int code = in_child([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 10;  // root may write everywhere
    const auto [existing, words] = open_fails();
    if (existing != Code::unavailable || words.find(path_) == std::string::npos) return 1;
    try {
      SqliteStore other{loop_.executor(), dir_ / "other.db"};
    } catch (const Error& error) {
      return error.code() == Code::unavailable ? 0 : 2;
    }
    return 3;
  });
  EXPECT_EQ(code, 0);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
}

TEST_F(SqliteStoreTest, WorksWithoutRootInADirectoryOfTheServers) {
  constexpr uid_t kServer = 65534;
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(dir_.path().c_str(), kServer, kServer), 0);
  }
  const int code = in_child([&] {
    if (::geteuid() == 0 && ::setuid(kServer) != 0) return 10;
    for (const std::string id : {"one", "two"}) {
      auto store = open();
      loop_.run(store->put(make(id)));
    }
    return open()->sessions().size() == 2 ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
}

TEST_F(SqliteStoreTest, AFullDiskFailsThePutAndHeals) {
  const int code = in_child([&] {
    auto store = open();
    int stored = 0;
    while (stored < 20) loop_.run(store->put(make(std::to_string(stored++))));
    const rlimit full{200'000, RLIM_INFINITY};  // the log grows to this, no further
    ::setrlimit(RLIMIT_FSIZE, &full);
    try {
      while (stored < 1000) loop_.run(store->put(make(std::to_string(stored++))));
      return 1;
    } catch (const Error& error) {
      if (error.code() != Code::unavailable) return 2;
      if (std::string{error.what()}.find("the disk") == std::string::npos) return 3;
    }
    if (store->problem().empty()) return 4;
    store->record(event("while it was full"));
    if (!loop_.run(store->events("", 5)).empty()) return 5;  // tried, and kept
    if (store->sessions().size() + 1 != static_cast<std::size_t>(stored)) return 6;
    const rlimit room{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &room);
    loop_.run(store->put(make("after")));
    if (!store->problem().empty()) return 7;
    if (loop_.run(store->events("", 5)).size() != 1) return 8;
    loop_.run(store->close());
    return open()->sessions().size() == static_cast<std::size_t>(stored) ? 0 : 9;
  });
  EXPECT_EQ(code, 0);
}

TEST_F(SqliteStoreTest, WhatCantBeWrittenDoesNotFillTheMemory) {
  const int code = in_child([&] {
    Settings settings = impatient();
    settings.queue = 10;
    auto store = open(settings);
    loop_.run(store->put(make("one")));
    const rlimit full{4096, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &full);
    for (int i = 0; i < 30; ++i) store->record(event(std::to_string(i)));
    store->sessions();
    if (store->problem().find("dropped: 20") == std::string::npos) return 1;
    const rlimit room{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &room);
    const auto events = loop_.run(store->events("", 100));
    if (events.size() != 10 || events[0].kind != "29") return 2;
    return store->problem().empty() ? 0 : 3;
  });
  EXPECT_EQ(code, 0);
}

TEST_F(SqliteStoreTest, AFileThatAnotherProgramHasOpenIsRefused) {
  auto store = open();
  loop_.run(store->put(make("one")));
  const int code = in_child([&] { return open_fails().first == Code::conflict ? 0 : 1; });
  EXPECT_EQ(code, 0);
}

}  // namespace
}  // namespace tb::store
