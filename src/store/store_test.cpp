// SPDX-License-Identifier: Apache-2.0
// What every store promises, tried on both.
#include "session/store.h"

#include <gtest/gtest.h>

#include "base/test_loop.h"
#include "os/test_dir.h"
#include "session/memory_store.h"
#include "store/sqlite_store.h"

namespace tb::store {
namespace {

using namespace std::string_literals;
using session::MemoryStore;
using session::Store;

WallTime at(std::int64_t milliseconds) {
  return WallTime{Milliseconds{1'700'000'000'000 + milliseconds}};
}

StoredSession make(const std::string& id, const std::string& thread, std::int64_t created = 0) {
  StoredSession session;
  session.id = id;
  session.thread = thread;
  session.user = "user of " + id;
  session.policy = "strict";
  session.provider = "native";
  session.environment = "Python3";
  session.agent = "agent of " + id;
  session.idle = 30min;
  session.created = at(created);
  session.last_activity = at(created);
  return session;
}

Event event(const std::string& kind, const std::string& session) {
  Event event;
  event.at = at(7);
  event.kind = kind;
  event.session = session;
  event.thread = "t";
  event.user = "u";
  event.detail = R"({"exit_code":0})";
  return event;
}

std::string ids(const std::vector<StoredSession>& sessions) {
  std::string result;
  for (const StoredSession& session : sessions) result += session.id + " ";
  return result;
}

std::string kinds(const std::vector<Event>& events) {
  std::string result;
  for (const Event& event : events) result += event.kind + " ";
  return result;
}

constexpr std::size_t kMaxEvents = 5;

template <class Kind>
class StoreTest : public testing::Test {
 protected:
  static std::unique_ptr<Store> make_store(TestLoop& loop, const std::string& path) {
    if constexpr (std::is_same_v<Kind, MemoryStore>) {
      return std::make_unique<MemoryStore>(kMaxEvents);
    } else {
      Settings settings;
      settings.max_events = kMaxEvents;
      return std::make_unique<SqliteStore>(loop.executor(), path, settings);
    }
  }
  Code put_fails(StoredSession session) {
    try {
      loop_.run(store_->put(std::move(session)));
    } catch (const Error& error) {
      return error.code();
    }
    ADD_FAILURE() << "it did not fail";
    return Code::internal;
  }

  TestLoop loop_;
  os::TestDir dir_;
  std::unique_ptr<Store> store_ = make_store(loop_, dir_ / "threadbox.db");
};

using Kinds = testing::Types<MemoryStore, SqliteStore>;
TYPED_TEST_SUITE(StoreTest, Kinds);

TYPED_TEST(StoreTest, EachTenantHasThreadsOfItsOwn) {
  StoredSession theirs = make("two", "t");
  theirs.tenant = "acme";
  this->loop_.run(this->store_->put(make("one", "t")));
  this->loop_.run(this->store_->put(theirs));
  theirs.id = "three";
  EXPECT_EQ(this->put_fails(theirs), Code::conflict);
  EXPECT_EQ(this->put_fails(make("four", "t")), Code::conflict);
  this->loop_.run(this->store_->remove("one"));
  this->loop_.run(this->store_->put(make("four", "t")));
  ASSERT_EQ(this->store_->sessions().size(), 2u);
  EXPECT_EQ(this->store_->sessions()[0].tenant, "acme");
}

TYPED_TEST(StoreTest, GivesBackWhatWasPut) {
  const std::string odd = "a\0b\xff'\"; DROP TABLE sessions"s;
  StoredSession session = make("one", odd);
  session.last_activity = at(99);
  this->loop_.run(this->store_->put(session));
  const auto found = this->store_->sessions();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].id, "one");
  EXPECT_EQ(found[0].thread, odd);
  EXPECT_EQ(found[0].user, "user of one");
  EXPECT_EQ(found[0].policy, "strict");
  EXPECT_EQ(found[0].provider, "native");
  EXPECT_EQ(found[0].environment, "Python3");
  EXPECT_EQ(found[0].agent, "agent of " + found[0].id);
  EXPECT_EQ(found[0].idle, 30min);
  EXPECT_EQ(found[0].created, at(0));
  EXPECT_EQ(found[0].last_activity, at(99));
  EXPECT_EQ(this->store_->problem(), "");
}

TYPED_TEST(StoreTest, SessionsComeInTheOrderOfTheirCreation) {
  this->loop_.run(this->store_->put(make("later", "a", 20)));
  this->loop_.run(this->store_->put(make("same-1", "b", 10)));
  this->loop_.run(this->store_->put(make("same-2", "c", 10)));
  this->loop_.run(this->store_->put(make("same-1", "b", 10)));
  EXPECT_EQ(ids(this->store_->sessions()), "same-1 same-2 later ");
}

TYPED_TEST(StoreTest, AThreadBelongsToOneSession) {
  this->loop_.run(this->store_->put(make("one", "t")));
  EXPECT_EQ(this->put_fails(make("two", "t")), Code::conflict);
  EXPECT_EQ(ids(this->store_->sessions()), "one ");
  EXPECT_EQ(this->store_->problem(), "");
}

TYPED_TEST(StoreTest, AnonymousSessionsDontCollide) {
  this->loop_.run(this->store_->put(make("one", "")));
  this->loop_.run(this->store_->put(make("two", "")));
  EXPECT_EQ(ids(this->store_->sessions()), "one two ");
}

TYPED_TEST(StoreTest, PuttingTheSameIdReplacesItAndFreesItsThread) {
  this->loop_.run(this->store_->put(make("one", "old")));
  this->loop_.run(this->store_->put(make("one", "new")));
  this->loop_.run(this->store_->put(make("two", "old")));
  EXPECT_EQ(ids(this->store_->sessions()), "one two ");
  EXPECT_EQ(this->put_fails(make("three", "new")), Code::conflict);
}

TYPED_TEST(StoreTest, RemovingFreesTheThreadAndAnUnknownIdIsFine) {
  this->loop_.run(this->store_->put(make("one", "t")));
  this->loop_.run(this->store_->remove("one"));
  this->loop_.run(this->store_->remove("one"));
  this->loop_.run(this->store_->put(make("two", "t")));
  EXPECT_EQ(ids(this->store_->sessions()), "two ");
}

TYPED_TEST(StoreTest, TheLastTouchCounts) {
  this->loop_.run(this->store_->put(make("one", "t")));
  this->store_->touch("unknown", at(5));
  for (int i = 1; i <= 1000; ++i) this->store_->touch("one", at(i));
  const auto found = this->store_->sessions();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].last_activity, at(1000));
  EXPECT_EQ(found[0].created, at(0));
}

TYPED_TEST(StoreTest, APutCountsMoreThanAnEarlierTouch) {
  this->loop_.run(this->store_->put(make("one", "t")));
  this->store_->touch("one", at(50));
  StoredSession session = make("one", "t");
  session.last_activity = at(60);
  this->loop_.run(this->store_->put(session));
  EXPECT_EQ(this->store_->sessions().at(0).last_activity, at(60));
}

TYPED_TEST(StoreTest, EventsComeNewestFirstAndNumbered) {
  this->store_->record(event("created", "one"));
  this->store_->record(event("created", "two"));
  this->store_->record(event("command", "one"));
  const auto all = this->loop_.run(this->store_->events("", 10));
  EXPECT_EQ(kinds(all), "command created created ");
  EXPECT_EQ(all[0].session, "one");
  EXPECT_EQ(all[0].at, at(7));
  EXPECT_EQ(all[0].thread, "t");
  EXPECT_EQ(all[0].user, "u");
  EXPECT_EQ(all[0].detail, R"({"exit_code":0})");
  EXPECT_GT(all[0].number, all[1].number);
  EXPECT_GT(all[2].number, 0);
  EXPECT_EQ(kinds(this->loop_.run(this->store_->events("one", 10))), "command created ");
  EXPECT_EQ(kinds(this->loop_.run(this->store_->events("one", 1))), "command ");
  EXPECT_EQ(kinds(this->loop_.run(this->store_->events("three", 10))), "");
  EXPECT_EQ(this->loop_.run(this->store_->events("", ~std::size_t{0})).size(), 3u);
}

TYPED_TEST(StoreTest, OldEventsAreForgotten) {
  for (int i = 0; i < 8; ++i) this->store_->record(event(std::to_string(i), "one"));
  EXPECT_EQ(kinds(this->loop_.run(this->store_->events("", 100))), "7 6 5 4 3 ");
}

TYPED_TEST(StoreTest, ClosedItTakesNothingMore) {
  this->loop_.run(this->store_->close());
  this->loop_.run(this->store_->close());
  EXPECT_EQ(this->put_fails(make("one", "t")), Code::unavailable);
  this->store_->touch("one", at(1));
  this->store_->record(event("late", "one"));
}

TYPED_TEST(StoreTest, ManyPutsAtOnceAllArriveAndOneWinsEachThread) {
  std::vector<std::shared_ptr<Outcome<bool>>> outcomes;
  for (int i = 0; i < 100; ++i) {
    const std::string thread = "t" + std::to_string(i % 50);
    outcomes.push_back(this->loop_.start(this->store_->put(make(std::to_string(i), thread, i))));
  }
  int refused = 0;
  for (auto& outcome : outcomes) {
    try {
      this->loop_.finish(outcome);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::conflict);
      ++refused;
    }
  }
  EXPECT_EQ(refused, 50);
  EXPECT_EQ(this->store_->sessions().size(), 50u);
}

}  // namespace
}  // namespace tb::store
