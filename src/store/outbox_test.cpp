// SPDX-License-Identifier: Apache-2.0
// Both outboxes keep the same promises; the one on disk keeps them over a restart.
#include "hooks/outbox.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/log.h"
#include "base/test_loop.h"
#include "os/test_dir.h"
#include "store/schema.h"
#include "store/sqlite_store.h"

namespace tb::store {
namespace {

using hooks::Delivery;
using hooks::State;

const auto kNow = std::chrono::system_clock::from_time_t(1'000'000'000);

Delivery make(const std::string& id, State state) {
  Delivery delivery;
  delivery.id = id;
  delivery.state = state;
  delivery.type = "process.ended";
  delivery.url = "http://example.org/";
  delivery.session = "s";
  delivery.thread = "t";
  delivery.process = 4'000'000'000;
  delivery.body = "body of " + id;
  delivery.created = kNow;
  return delivery;
}

class OutboxTest : public testing::TestWithParam<bool> {
 protected:
  OutboxTest() {
    set_log(LogLevel::off, false);
    open();
  }
  void open() {
    outbox_.reset();
    if (GetParam()) {
      outbox_ = std::make_unique<SqliteStore>(loop_.executor(), dir_.path() + "/db");
    } else {
      outbox_ = std::make_unique<hooks::MemoryOutbox>();
    }
  }
  std::optional<State> put(Delivery delivery) {
    return loop_.run(outbox_->put_delivery(std::move(delivery)));
  }
  std::vector<std::string> ids(State state, std::size_t limit = 100) {
    std::vector<std::string> list;
    for (const Delivery& row : loop_.run(outbox_->deliveries(state, limit))) {
      EXPECT_EQ(row.body, "");
      list.push_back(row.id);
    }
    return list;
  }

  os::TestDir dir_;
  TestLoop loop_;
  std::unique_ptr<hooks::Outbox> outbox_;
};

using Ids = std::vector<std::string>;

TEST_P(OutboxTest, KeepsAllOfADelivery) {
  Delivery put_in = make("1", State::pending);
  put_in.next = kNow + 5s;
  EXPECT_FALSE(put(put_in));
  put_in.attempts = 3;
  put_in.failures = 2;
  put_in.status = 503;
  put_in.error = "answered 503";
  put_in.ended = kNow + 9s;
  put_in.state = State::dead;
  Delivery saved = put_in;
  saved.body = "not looked at";
  loop_.run(outbox_->save_delivery(saved));
  if (GetParam()) open();
  const Delivery row = *loop_.run(outbox_->find_delivery("1"));
  EXPECT_EQ(std::tie(row.id, row.state, row.type, row.url, row.session, row.thread, row.process),
            std::tie(put_in.id, put_in.state, put_in.type, put_in.url, put_in.session,
                     put_in.thread, put_in.process));
  EXPECT_EQ(std::tie(row.body, row.attempts, row.failures, row.created, row.next, row.ended,
                     row.status, row.error),
            std::tie(put_in.body, put_in.attempts, put_in.failures, put_in.created, put_in.next,
                     put_in.ended, put_in.status, put_in.error));
}

TEST_P(OutboxTest, OnlyOneThatWaitsIsReplaced) {
  EXPECT_FALSE(put(make("1", State::waiting)));
  Delivery ended = make("1", State::pending);
  ended.body = "the end";
  EXPECT_EQ(put(ended), State::waiting);
  EXPECT_EQ(loop_.run(outbox_->find_delivery("1"))->body, "the end");
  ended.body = "another end";
  EXPECT_EQ(put(ended), State::pending);
  EXPECT_EQ(put(make("1", State::waiting)), State::pending);
  EXPECT_EQ(loop_.run(outbox_->find_delivery("1"))->body, "the end");
  EXPECT_EQ(ids(State::pending), Ids{"1"});
  EXPECT_EQ(ids(State::waiting), Ids{});
}

TEST_P(OutboxTest, ListsTheNewestFirst) {
  for (const char* id : {"1", "2", "3"}) put(make(id, State::pending));
  put(make("4", State::dead));
  EXPECT_EQ(ids(State::pending), (Ids{"3", "2", "1"}));
  EXPECT_EQ(ids(State::pending, 2), (Ids{"3", "2"}));
  EXPECT_EQ(ids(State::dead, SIZE_MAX), Ids{"4"});
}

TEST_P(OutboxTest, WhatIsRemovedStaysSo) {
  put(make("1", State::pending));
  EXPECT_TRUE(loop_.run(outbox_->remove_delivery("1")));
  EXPECT_FALSE(loop_.run(outbox_->remove_delivery("1")));
  loop_.run(outbox_->save_delivery(make("1", State::done)));
  EXPECT_FALSE(loop_.run(outbox_->find_delivery("1")));
}

TEST_P(OutboxTest, ForgetsWhatIsTooManyTooLargeOrTooOld) {
  for (int i = 0; i < 6; ++i) {
    Delivery dead = make(std::to_string(i), State::dead);
    dead.ended = kNow + std::chrono::minutes{i};
    dead.body = std::string(10, 'x');
    put(dead);
  }
  put(make("pending", State::pending));
  const auto trim = [&](hooks::Kept kept) {
    loop_.run(outbox_->trim_deliveries(State::dead, kept, kNow + 1h));
  };
  trim({.count = 5});
  EXPECT_EQ(ids(State::dead), (Ids{"5", "4", "3", "2", "1"}));
  trim({.bytes = Bytes{40}});
  EXPECT_EQ(ids(State::dead), (Ids{"5", "4", "3", "2"}));
  loop_.run(outbox_->trim_deliveries(State::dead, {.age = std::chrono::hours{1}},
                                     kNow + 1h + 3min + 30s));
  EXPECT_EQ(ids(State::dead), (Ids{"5", "4"}));
  EXPECT_EQ(ids(State::pending), Ids{"pending"});
}

TEST(OutboxOnDisk, AStoreOfBeforeGetsOneAndKeepsItsSessions) {
  const os::TestDir dir;
  const std::string path = dir / "db";
  std::ofstream{path};
  {
    Connection connection{path};
    migrate(connection, migrations().first(1));
    connection.run(
        "INSERT INTO sessions (id, thread, user, policy, idle_ms, created_ms, last_activity_ms) "
        "VALUES ('s', 't', 'u', 'open', 1000, 1, 1)");
  }
  TestLoop loop;
  SqliteStore store{loop.executor(), path};
  EXPECT_EQ(store.recovered(), "");
  EXPECT_EQ(store.sessions().size(), 1u);
  EXPECT_FALSE(loop.run(store.put_delivery(make("1", State::pending))));
  EXPECT_EQ(loop.run(store.deliveries(State::pending, 10)).size(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Both, OutboxTest, testing::Bool(), [](const auto& which) {
  return which.param ? std::string{"Sqlite"} : std::string{"Memory"};
});

}  // namespace
}  // namespace tb::store
