// SPDX-License-Identifier: Apache-2.0
#include "hooks/deliveries.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "base/test_loop.h"

namespace tb::hooks {
namespace {

class DeliveriesTest : public testing::Test {
 protected:
  DeliveriesTest() { set_log(LogLevel::off, false); }
  ~DeliveriesTest() override { loop_.run(deliveries_.close()); }

  Deliveries::Settings settings() {
    Deliveries::Settings settings;
    settings.schedule = {10s, 100s};
    settings.callbacks = {.at_once = 3, .per_source = 2, .per_host = 2, .count = 20};
    settings.events = {.at_once = 3, .per_source = 2, .per_host = 2, .count = 20, .bytes = 200_B};
    settings.now = [this] { return now_; };
    settings.chance = [] { return 0.5; };
    return settings;
  }

  static Delivery to(const std::string& id, const std::string& host = "a") {
    Delivery delivery;
    delivery.id = id;
    delivery.type = "test";
    delivery.url = "http://" + host + "/";
    delivery.session = "session of " + host;
    delivery.body = "body of " + id;
    return delivery;
  }

  awaitable<Attempt> send(Delivery delivery) {
    sent_.push_back(delivery.id);
    EXPECT_EQ(delivery.body, "body of " + delivery.id);
    while (held_) co_await let_go_.wait();
    co_return answer_;
  }

  void enqueue(Delivery delivery) { loop_.run(deliveries_.enqueue(std::move(delivery))); }
  void look() {
    deliveries_.look();
    loop_.settle();
  }
  void let_go() {
    held_ = false;
    let_go_.notify_all();
    loop_.settle();
  }
  Delivery found(const std::string& id) { return *loop_.run(outbox_.find_delivery(id)); }

  TestLoop loop_;
  WallTime now_ = std::chrono::system_clock::from_time_t(1'000'000'000);
  MemoryOutbox outbox_;
  session::Metrics metrics_;
  std::vector<std::string> sent_;
  Attempt answer_{.status = 200};
  bool held_ = false;
  Signal let_go_{loop_.executor()};
  Deliveries deliveries_{loop_.executor(), outbox_,
                         [this](Delivery delivery) { return send(std::move(delivery)); }, metrics_,
                         settings()};
};

TEST_F(DeliveriesTest, WhatIsEnqueuedIsSentOnceAndDone) {
  enqueue(to("1"));
  EXPECT_EQ(found("1").state, State::pending);
  look();
  look();
  EXPECT_EQ(sent_, std::vector<std::string>{"1"});
  EXPECT_EQ(found("1").state, State::done);
  EXPECT_EQ(found("1").attempts, 1u);
  EXPECT_EQ(deliveries_.pending(), 0u);
  enqueue(to("1"));  // somebody else found the same end
  look();
  EXPECT_EQ(sent_.size(), 1u);
  EXPECT_EQ(deliveries_.pending(), 0u);
  EXPECT_EQ(metrics_.hooks[session::HookResult::delivered].value(), 1u);
}

TEST_F(DeliveriesTest, WhatFailsIsTriedAgainWhenItsTimeComesUntilTheScheduleEnds) {
  answer_ = {.status = 500, .error = "answered 500"};
  enqueue(to("1"));
  look();
  EXPECT_EQ(found("1").next, now_ + 10s);
  now_ += 9999ms;
  look();
  EXPECT_EQ(sent_.size(), 1u);
  now_ += 1ms;
  look();
  EXPECT_EQ(sent_.size(), 2u);
  EXPECT_EQ(found("1").next, now_ + 100s);
  EXPECT_EQ(found("1").error, "answered 500");
  EXPECT_EQ(deliveries_.pending(), 1u);
  now_ += 100s;
  look();
  EXPECT_EQ(found("1").state, State::dead);
  EXPECT_EQ(found("1").attempts, 3u);
  EXPECT_EQ(found("1").ended, now_);
  EXPECT_EQ(deliveries_.pending(), 0u);
  now_ += 1h;
  look();
  EXPECT_EQ(sent_.size(), 3u);
}

TEST_F(DeliveriesTest, SomeAnswersEndAllHope) {
  answer_ = {.status = 410, .error = "answered 410"};
  enqueue(to("gone"));
  look();
  EXPECT_EQ(found("gone").state, State::dead);
  answer_ = {.error = "nothing is sent there", .refused = true};
  enqueue(to("inside"));
  look();
  EXPECT_EQ(found("inside").state, State::dead);
  EXPECT_EQ(metrics_.hooks[session::HookResult::dead].value(), 1u);
  EXPECT_EQ(metrics_.hooks[session::HookResult::refused].value(), 1u);
}

TEST_F(DeliveriesTest, AReplayBeginsFromTheBeginning) {
  answer_ = {.status = 500, .error = "x"};
  enqueue(to("1"));
  for (int i = 0; i < 3; ++i) {
    look();
    now_ += 100s;
  }
  EXPECT_EQ(found("1").state, State::dead);
  EXPECT_EQ(loop_.run(deliveries_.replay("1")).state, State::pending);
  look();
  EXPECT_EQ(found("1").state, State::pending);
  EXPECT_EQ(found("1").next, now_ + 10s);
  EXPECT_EQ(found("1").attempts, 4u);
  // Sooner than its time, and once though asked twice.
  answer_ = {.status = 204};
  loop_.run(deliveries_.replay("1"));
  loop_.run(deliveries_.replay("1"));
  EXPECT_EQ(deliveries_.pending(), 1u);
  look();
  EXPECT_EQ(sent_.size(), 5u);
  EXPECT_EQ(found("1").state, State::done);
  EXPECT_THROW(loop_.run(deliveries_.replay("2")), Error);
}

TEST_F(DeliveriesTest, HostsTakeTurnsAndNoneHasAll) {
  held_ = true;
  for (const char* id : {"a1", "a2", "a3", "a4"}) enqueue(to(id, "a"));
  for (const char* id : {"b1", "b2"}) enqueue(to(id, "b"));
  look();
  ASSERT_EQ(sent_.size(), 3u);
  EXPECT_EQ(std::count(sent_.begin(), sent_.end(), "b1"), 1);
  let_go();
  look();
  look();
  EXPECT_EQ(sent_.size(), 6u);
  EXPECT_EQ(deliveries_.pending(), 0u);
}

TEST_F(DeliveriesTest, AFullQueueIsSaidInTheDeadLetter) {
  for (int i = 0; i < 21; ++i) enqueue(to(std::to_string(i), "h" + std::to_string(i)));
  EXPECT_EQ(deliveries_.pending(), 20u);
  EXPECT_EQ(found("20").state, State::dead);
  EXPECT_NE(found("20").error, "");
}

TEST_F(DeliveriesTest, AReceiverThatIsDownLeavesRoomForOthers) {
  for (int i = 0; i < 30; ++i) enqueue(to(std::to_string(i)));
  EXPECT_EQ(deliveries_.pending(), 10u);
  EXPECT_EQ(found("10").state, State::dead);
  for (int i = 0; i < 30; ++i) enqueue(to("b" + std::to_string(i), "b"));
  EXPECT_EQ(found("b4").state, State::pending);
  EXPECT_EQ(found("b5").state, State::dead);
  enqueue(to("c", "c"));
  EXPECT_EQ(found("c").state, State::pending);
}

TEST_F(DeliveriesTest, WhatIsWaitedForIsSentOnlyOnceItHappened) {
  EXPECT_FALSE(loop_.run(deliveries_.expect(to("1"))));
  look();
  EXPECT_TRUE(sent_.empty());
  EXPECT_THROW(loop_.run(deliveries_.replay("1")), Error);
  EXPECT_EQ(loop_.run(deliveries_.expect(to("1"))), State::waiting);
  enqueue(to("1"));
  look();
  EXPECT_EQ(sent_.size(), 1u);
  EXPECT_EQ(loop_.run(deliveries_.expect(to("1"))), State::done);
  EXPECT_EQ(found("1").state, State::done);
}

TEST_F(DeliveriesTest, WhatAnEarlierServerLeftIsTakenUp) {
  Delivery left = to("1");
  left.next = now_ - 1h;
  loop_.run(outbox_.put_delivery(left));
  left = to("2");
  left.next = now_ + 1h;
  loop_.run(outbox_.put_delivery(left));
  loop_.run(deliveries_.open());
  loop_.settle();
  EXPECT_EQ(sent_, std::vector<std::string>{"1"});
  EXPECT_EQ(deliveries_.pending(), 1u);
}

TEST_F(DeliveriesTest, WhatCameBeforeTheStartIsSentOnce) {
  held_ = true;
  enqueue(to("1"));
  look();
  enqueue(to("2"));
  loop_.run(deliveries_.open());
  EXPECT_EQ(deliveries_.pending(), 2u);
  let_go();
  loop_.settle();
  EXPECT_EQ(sent_, (std::vector<std::string>{"1", "2"}));
  EXPECT_EQ(deliveries_.pending(), 0u);
}

TEST_F(DeliveriesTest, WhatIsRemovedIsNotSentAgain) {
  answer_ = {.status = 500, .error = "x"};
  enqueue(to("1"));
  look();
  loop_.run(deliveries_.remove("1"));
  EXPECT_EQ(deliveries_.pending(), 0u);
  now_ += 1h;
  look();
  EXPECT_EQ(sent_.size(), 1u);
  EXPECT_THROW(loop_.run(deliveries_.remove("1")), Error);
  // Also while it is tried: the attempt may arrive, but it does not come back.
  held_ = true;
  enqueue(to("2"));
  look();
  loop_.run(deliveries_.remove("2"));
  let_go();
  now_ += 1h;
  look();
  EXPECT_EQ(sent_.size(), 2u);
  EXPECT_EQ(deliveries_.pending(), 0u);
}

TEST_F(DeliveriesTest, WhatProcessesAskForTakesNoRoomAndNoTurnFromWebhooks) {
  held_ = true;
  for (int i = 0; i < 40; ++i) {
    Delivery flood = to("flood" + std::to_string(i), "h" + std::to_string(i));
    flood.session = "s" + std::to_string(i);
    enqueue(std::move(flood));
  }
  EXPECT_EQ(deliveries_.pending(), 20u);
  look();
  Delivery event = to("event");
  event.webhook = "wh_1";
  enqueue(std::move(event));
  look();
  EXPECT_EQ(sent_.back(), "event");
  let_go();
}

TEST_F(DeliveriesTest, BodiesThatWaitHaveABound) {
  for (int i = 0; i < 25; ++i) {
    Delivery event = to(std::to_string(i));
    event.webhook = "wh_" + std::to_string(i);
    event.url = "http://h" + std::to_string(i) + "/";
    enqueue(std::move(event));
  }
  EXPECT_EQ(found("24").state, State::dead);
  EXPECT_EQ(metrics_.hooks_pending_bytes.value(), 190) << "of less than 200 that may be";
  look();
  EXPECT_LT(metrics_.hooks_pending_bytes.value(), 190);
}

TEST_F(DeliveriesTest, WhatComesTwiceIsThereOnce) {
  std::vector<Delivery> both{to("1"), to("1")};
  loop_.run(deliveries_.enqueue_all(both));
  EXPECT_EQ(deliveries_.pending(), 1u);
  loop_.run(deliveries_.enqueue_all(both));
  look();
  EXPECT_EQ(sent_.size(), 1u);
  EXPECT_EQ(deliveries_.pending(), 0u);
}

}  // namespace
}  // namespace tb::hooks
