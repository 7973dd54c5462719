// SPDX-License-Identifier: Apache-2.0
#include "hooks/webhooks.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "base/test_loop.h"
#include "hooks/signing.h"

namespace tb::hooks {
namespace {

namespace json = boost::json;
using session::Happening;
using session::Told;

// A disk that can be full.
class Disk : public MemoryOutbox {
 public:
  awaitable<std::vector<std::optional<State>>> put_deliveries(
      std::vector<Delivery> deliveries) override {
    if (full) throw Error{Code::unavailable, "no space left"};
    co_return co_await MemoryOutbox::put_deliveries(std::move(deliveries));
  }
  bool full = false;
};

class WebhooksTest : public testing::Test {
 protected:
  WebhooksTest() { set_log(LogLevel::off, false); }
  ~WebhooksTest() override { close(); }

  void open() {
    deliveries_ = std::make_unique<Deliveries>(
        loop_.executor(), outbox_, [this](Delivery delivery) { return send(std::move(delivery)); },
        metrics_, Deliveries::Settings{});
    Webhooks::Settings settings;
    settings.queue = 3;
    settings.per_tenant = 2;
    settings.retry = 1ms;
    settings.now = [this] { return now_; };
    settings.rules = {true, {}};
    webhooks_ = std::make_unique<Webhooks>(loop_.executor(), outbox_, *deliveries_, metrics_,
                                           std::move(settings));
    loop_.run(webhooks_->open());
  }
  void close() {
    if (!webhooks_) return;
    loop_.run(webhooks_->close());
    loop_.run(deliveries_->close());
    webhooks_.reset();
    deliveries_.reset();
  }
  awaitable<Attempt> send(Delivery delivery) {
    sent_.push_back(std::move(delivery));
    co_return Attempt{.status = 200};
  }
  Webhook subscribe(std::vector<std::string> events, const std::string& tenant = {}) {
    Webhook like;
    like.url = "http://a/";
    like.tenant = tenant;
    like.events = std::move(events);
    return loop_.run(webhooks_->create(like));
  }
  Told told(Happening what, const std::string& key, const std::string& tenant = {}) {
    Told one;
    one.what = what;
    one.tenant = tenant;
    one.key = key;
    one.session = "s";
    one.at = now_;
    one.data["session_id"] = "s";
    return one;
  }
  std::size_t pending() {
    loop_.run(webhooks_->settle());
    return loop_.run(outbox_.deliveries(State::pending, 100)).size();
  }

  TestLoop loop_;
  WallTime now_ = std::chrono::system_clock::from_time_t(1'000'000'000);
  Disk outbox_;
  session::Metrics metrics_;
  std::vector<Delivery> sent_;
  std::unique_ptr<Deliveries> deliveries_;
  std::unique_ptr<Webhooks> webhooks_;
};

TEST_F(WebhooksTest, OnlyWhatSomebodyWantsIsWorthTelling) {
  open();
  EXPECT_FALSE(webhooks_->wants(Happening::session_created));
  Webhook one = subscribe({"session.created"});
  EXPECT_TRUE(webhooks_->wants(Happening::session_created));
  EXPECT_FALSE(webhooks_->wants(Happening::session_closed));
  one.active = false;
  loop_.run(webhooks_->change(one));
  EXPECT_FALSE(webhooks_->wants(Happening::session_created));
}

TEST_F(WebhooksTest, AnEventIsOnDiskWhenItIsSettled) {
  open();
  subscribe({});
  webhooks_->happened(told(Happening::session_created, "k"));
  EXPECT_TRUE(webhooks_->unsettled());
  EXPECT_EQ(pending(), 1u);
  EXPECT_FALSE(webhooks_->unsettled());
  EXPECT_EQ(metrics_.hook_events.value(), 1u);
}

TEST_F(WebhooksTest, TenantsHearOfTheirOwnAlone) {
  open();
  const Webhook mine = subscribe({}, "a");
  subscribe({}, "b");
  webhooks_->happened(told(Happening::session_created, "k", "a"));
  EXPECT_EQ(pending(), 1u);
  EXPECT_EQ(webhooks_->list("a").size(), 1u);
  EXPECT_THROW(webhooks_->get("b", mine.id), Error);
  EXPECT_THROW(loop_.run(webhooks_->remove("b", mine.id)), Error);
  EXPECT_THROW(loop_.run(webhooks_->test("b", mine.id)), Error);
  EXPECT_NO_THROW(webhooks_->get("a", mine.id));
}

TEST_F(WebhooksTest, WhatIsFoundIsToldUnlessAnEarlierServerDid) {
  open();
  subscribe({});
  now_ += 1h;
  webhooks_->happened(told(Happening::command_failed, "1"));
  EXPECT_EQ(pending(), 1u);
  close();
  open();
  Told again = told(Happening::command_failed, "1");
  again.found = true;
  webhooks_->happened(again);  // near the last one: it may be one that was not stored
  EXPECT_EQ(pending(), 1u) << "but it was";
  Told old = told(Happening::command_failed, "2");
  old.found = true;
  old.at = now_ - 1min;
  webhooks_->happened(old);
  EXPECT_EQ(pending(), 1u) << "all from before the last one are stored";
  Told fresh = told(Happening::command_failed, "3");
  fresh.found = true;
  fresh.at = now_ + 1min;
  webhooks_->happened(fresh);
  EXPECT_EQ(pending(), 2u);
}

TEST_F(WebhooksTest, ADiskThatDoesNotTakeItIsTriedAgainAndWhatIsTooMuchIsCounted) {
  open();
  subscribe({});
  outbox_.full = true;
  for (int i = 0; i < 5; ++i) webhooks_->happened(told(Happening::session_created, ""));
  EXPECT_EQ(pending(), 0u);
  EXPECT_FALSE(webhooks_->unsettled()) << "nobody waits for a disk that fails";
  EXPECT_EQ(metrics_.hook_events_lost.value(), 2u);
  outbox_.full = false;
  webhooks_->happened(told(Happening::session_created, ""));
  EXPECT_EQ(metrics_.hook_events_lost.value(), 3u) << "there is still no room";
  while (loop_.run(outbox_.deliveries(State::pending, 100)).empty()) loop_.settle();
  EXPECT_EQ(loop_.run(outbox_.deliveries(State::pending, 100)).size(), 3u);
}

TEST_F(WebhooksTest, TheirNumberHasAnEndAndTheirSecretsAreTheirOwn) {
  open();
  const Webhook one = subscribe({});
  const Webhook two = subscribe({});
  EXPECT_NE(one.secret, two.secret);
  EXPECT_NO_THROW(Secret::parse(one.secret));
  try {
    subscribe({});
    FAIL() << "a third";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::conflict);
  }
  EXPECT_NO_THROW(subscribe({}, "another"));
  EXPECT_THROW(subscribe({"nothing"}, "third"), Error);
}

TEST_F(WebhooksTest, TheBodySaysWhatHappenedAndInWhichOrder) {
  open();
  const Webhook one = subscribe({});
  webhooks_->happened(told(Happening::session_created, "k"));
  webhooks_->happened(told(Happening::session_closed, "k"));
  EXPECT_EQ(pending(), 2u);
  deliveries_->look();
  loop_.settle();
  ASSERT_EQ(sent_.size(), 2u);
  const json::value body = json::parse(sent_[1].body);
  EXPECT_EQ(body.at("type").as_string(), "session.closed");
  EXPECT_EQ(body.at("timestamp").as_string(), "2001-09-09T01:46:40.000Z");
  EXPECT_EQ(body.at("sequence").to_number<int>(), 2);
  EXPECT_EQ(body.at("data").at("session_id").as_string(), "s");
  EXPECT_EQ(sent_[1].webhook, one.id);
}

}  // namespace
}  // namespace tb::hooks
