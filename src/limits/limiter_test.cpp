// SPDX-License-Identifier: Apache-2.0
#include "limits/limiter.h"

#include <gtest/gtest.h>

namespace tb::limits {
namespace {

using namespace std::chrono_literals;

// Time that goes by when it is told to.
struct Time {
  Limiter::Clock::time_point now{1h};
  Limiter::Now clock() {
    return [this] { return now; };
  }
};

Limiter::Settings for_tenants(const char* text) { return {.tenant = parse_allowance(text)}; }

const Identity kSomebody{.tenant = "t", .key = "k", .user = "u"};

// What it says when it refuses; empty when it does not.
std::string refusal(Limiter& limiter, const Identity& who, Flow flow, std::uint64_t amount = 1) {
  try {
    limiter.take(who, flow, amount);
    return {};
  } catch (const Exceeded& exceeded) {
    EXPECT_EQ(exceeded.code(), Code::exhausted);
    return exceeded.what();
  }
}

TEST(Limiter, WithoutLimitsIsNotActiveAndRefusesNothing) {
  Limiter limiter{{}};
  EXPECT_FALSE(limiter.active());
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(limiter.take(kSomebody, Flow::requests).limit, 0u);
  EXPECT_EQ(limiter.size(), 0u);
}

TEST(Limiter, LetsABurstThroughAndThenAsMuchAsComesBack) {
  Time time;
  Limiter limiter{for_tenants("requests=60/min"), time.clock()};
  EXPECT_TRUE(limiter.active());
  for (int i = 0; i < 60; ++i) EXPECT_EQ(refusal(limiter, kSomebody, Flow::requests), "") << i;
  EXPECT_EQ(refusal(limiter, kSomebody, Flow::requests),
            "Too many requests of this tenant: 60 in 60 s; try again in 1 s");
  time.now += 999ms;
  EXPECT_NE(refusal(limiter, kSomebody, Flow::requests), "");
  time.now += 1ms;
  EXPECT_EQ(refusal(limiter, kSomebody, Flow::requests), "");
  EXPECT_NE(refusal(limiter, kSomebody, Flow::requests), "");
  time.now += 24h;  // it never holds more than the burst
  for (int i = 0; i < 60; ++i) EXPECT_EQ(refusal(limiter, kSomebody, Flow::requests), "") << i;
  EXPECT_NE(refusal(limiter, kSomebody, Flow::requests), "");
}

TEST(Limiter, TellsHowThingsStand) {
  Time time;
  Limiter limiter{for_tenants("requests=10/min"), time.clock()};
  const Standing first = limiter.take(kSomebody, Flow::requests);
  EXPECT_EQ(first.limit, 10u);
  EXPECT_EQ(first.remaining, 9u);
  EXPECT_EQ(first.window, 60s);
  EXPECT_EQ(first.reset, 6s);
  for (int i = 0; i < 9; ++i) limiter.take(kSomebody, Flow::requests);
  try {
    limiter.take(kSomebody, Flow::requests);
    FAIL();
  } catch (const Exceeded& exceeded) {
    EXPECT_EQ(exceeded.standing().remaining, 0u);
    EXPECT_EQ(exceeded.standing().retry, 6s);
    EXPECT_EQ(exceeded.standing().reset, 60s);
  }
}

TEST(Limiter, TheTightestScopeCountsAndARefusalTakesFromNone) {
  Time time;
  Limiter::Settings settings = for_tenants("requests=100/min");
  settings.key = parse_allowance("requests=3/min");
  settings.user = parse_allowance("requests=50/min");
  Limiter limiter{settings, time.clock()};
  EXPECT_EQ(limiter.take(kSomebody, Flow::requests).limit, 3u);
  limiter.take(kSomebody, Flow::requests);
  limiter.take(kSomebody, Flow::requests);
  for (int i = 0; i < 10; ++i) {
    EXPECT_NE(refusal(limiter, kSomebody, Flow::requests).find("of this key"), std::string::npos);
  }
  const Identity without_key{.tenant = "t", .user = "u"};
  EXPECT_EQ(limiter.take(without_key, Flow::requests).remaining, 46u);  // the user's
}

TEST(Limiter, NamesOfDifferentScopesAndTenantsAreApart) {
  Time time;
  Limiter::Settings settings;
  settings.user = parse_allowance("requests=1/min");
  Limiter limiter{settings, time.clock()};
  for (const Identity& who :
       {Identity{.tenant = "a", .user = "u"}, Identity{.tenant = "b", .user = "u"},
        Identity{.tenant = "a", .user = "v"}}) {
    EXPECT_EQ(refusal(limiter, who, Flow::requests), "");
    EXPECT_NE(refusal(limiter, who, Flow::requests), "");
    EXPECT_EQ(refusal(limiter, who, Flow::creations), "");
  }
  EXPECT_EQ(refusal(limiter, {.tenant = "a"}, Flow::requests), "");
}

TEST(Limiter, TheDefaultTenantHasALimitToo) {
  Limiter limiter{for_tenants("requests=1/min")};
  EXPECT_EQ(refusal(limiter, {}, Flow::requests), "");
  EXPECT_NE(refusal(limiter, {}, Flow::requests), "");
}

TEST(Limiter, WhatHasHappenedLeavesADebt) {
  Time time;
  Limiter limiter{for_tenants("bytes=100/s"), time.clock()};
  limiter.check(kSomebody, Flow::bytes);
  limiter.charge(kSomebody, Flow::bytes, 1000);
  EXPECT_THROW(limiter.check(kSomebody, Flow::bytes), Exceeded);
  time.now += 9s;
  EXPECT_THROW(limiter.check(kSomebody, Flow::bytes), Exceeded);
  time.now += 10ms;
  limiter.check(kSomebody, Flow::bytes);
}

TEST(Limiter, SomeHaveLimitsOfTheirOwn) {
  Limiter limiter{for_tenants("requests=1/min")};
  limiter.set_special([](Scope scope, const std::string& name) -> std::optional<Allowance> {
    if (scope != Scope::tenant || name != "large") return std::nullopt;
    return parse_allowance("requests=3/min");
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(refusal(limiter, {.tenant = "large"}, Flow::requests), "");
  EXPECT_NE(refusal(limiter, {.tenant = "large"}, Flow::requests), "");
  EXPECT_EQ(refusal(limiter, {.tenant = "small"}, Flow::requests), "");
  EXPECT_NE(refusal(limiter, {.tenant = "small"}, Flow::requests), "");
}

TEST(Limiter, WhatIsHeldIsGivenBack) {
  Limiter limiter{for_tenants("sessions=2,processes=1")};
  limiter.hold(kSomebody, Stock::sessions);
  limiter.hold(kSomebody, Stock::sessions);
  EXPECT_THROW(limiter.hold(kSomebody, Stock::sessions), Exceeded);
  limiter.hold(kSomebody, Stock::processes);
  EXPECT_THROW(limiter.hold(kSomebody, Stock::processes), Exceeded);
  limiter.release(kSomebody, Stock::sessions);
  limiter.hold(kSomebody, Stock::sessions);
  limiter.hold({.tenant = "other"}, Stock::sessions);
  limiter.count(kSomebody, Stock::sessions);  // was there before: a third
  limiter.release(kSomebody, Stock::sessions);
  EXPECT_THROW(limiter.hold(kSomebody, Stock::sessions), Exceeded);
}

TEST(Limiter, ManyNamesFillNoMemoryAndTheNewOnesShare) {
  Time time;
  Limiter::Settings settings;
  settings.user = parse_allowance("requests=2/min");
  settings.names = 10;
  Limiter limiter{settings, time.clock()};
  const auto user = [](int i) { return Identity{.tenant = "t", .user = std::to_string(i)}; };
  for (int i = 0; i < 10; ++i) limiter.take(user(i), Flow::requests);
  EXPECT_EQ(refusal(limiter, user(10), Flow::requests), "");
  EXPECT_EQ(refusal(limiter, user(11), Flow::requests), "");
  EXPECT_NE(refusal(limiter, user(12), Flow::requests), "");
  EXPECT_LE(limiter.size(), 11u);
  time.now += 1h;  // all have what they may have: nobody needs to be remembered
  EXPECT_EQ(refusal(limiter, user(12), Flow::requests), "");
  EXPECT_EQ(limiter.size(), 1u);
}

// ---- sharing ----

TEST(Limiter, TellsWhatWasTakenOnce) {
  Time time;
  Limiter limiter{for_tenants("requests=10/min"), time.clock()};
  limiter.take(kSomebody, Flow::requests);  // before anybody wanted to know
  int told = 0;
  limiter.share([&] { ++told; }, 10s);
  EXPECT_TRUE(limiter.take_told(10).empty());
  limiter.take(kSomebody, Flow::requests);
  time.now += 2s;
  limiter.take(kSomebody, Flow::requests, 3);
  EXPECT_EQ(told, 2);
  const auto taken = limiter.take_told(10);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].name, "tenant\nt");
  EXPECT_EQ(taken[0].amount, 4);
  EXPECT_EQ(taken[0].ago, Limiter::Clock::duration{2s});
  EXPECT_EQ(taken[0].rate, (Rate{10, 60s}));
  EXPECT_TRUE(limiter.take_told(10).empty());
}

TEST(Limiter, WhatOthersTookIsGoneHereToo) {
  Time time;
  Limiter limiter{for_tenants("requests=10/min"), time.clock()};
  limiter.share([] {}, 10s);
  limiter.take(kSomebody, Flow::requests);
  const auto taken = limiter.take_told(10);
  limiter.take(kSomebody, Flow::requests, 2);  // while the answer is under way
  limiter.settle(taken[0], 5);
  EXPECT_EQ(limiter.take(kSomebody, Flow::requests).remaining, 2u);
  EXPECT_EQ(limiter.take_told(10)[0].amount, 3);
  limiter.settle(taken[0], 1000);  // others give nothing back
  EXPECT_EQ(limiter.take(kSomebody, Flow::requests).remaining, 1u);
  limiter.settle(taken[0], -10);
  EXPECT_NE(refusal(limiter, kSomebody, Flow::requests), "");
  time.now += 60s;  // the debt takes time
  EXPECT_NE(refusal(limiter, kSomebody, Flow::requests), "");
  time.now += 20s;
  EXPECT_EQ(refusal(limiter, kSomebody, Flow::requests), "");
}

TEST(Limiter, NothingUntoldIsForgottenAndASettlementOfSomethingForgottenIsNone) {
  Time time;
  Limiter::Settings settings;
  settings.user = parse_allowance("requests=2/s");
  settings.names = 1;
  Limiter limiter{settings, time.clock()};
  limiter.share([] {}, 10s);
  const auto user = [](const char* name) { return Identity{.tenant = "t", .user = name}; };
  limiter.take(user("a"), Flow::requests);
  time.now += 1h;
  limiter.take(user("b"), Flow::requests);  // wants room
  const auto taken = limiter.take_told(10);
  ASSERT_EQ(taken.size(), 2u);
  time.now += 1h;
  limiter.take(user("c"), Flow::requests);
  EXPECT_EQ(limiter.size(), 1u);
  for (const auto& one : taken) limiter.settle(one, -100);
  EXPECT_EQ(refusal(limiter, user("c"), Flow::requests), "");
}

TEST(Limiter, CountsOfOthersCountAsLongAsTheyAreBelieved) {
  Time time;
  Limiter limiter{for_tenants("sessions=3"), time.clock()};
  limiter.share([] {}, 10s);
  limiter.hold(kSomebody, Stock::sessions);
  const auto counts = limiter.counts_told(10);
  ASSERT_EQ(counts.size(), 1u);
  EXPECT_EQ(counts[0].held, (Limiter::Held{1, 0}));
  EXPECT_TRUE(limiter.counts_told(10).empty());
  limiter.set_elsewhere(counts[0].name, {2, 7});
  EXPECT_THROW(limiter.hold(kSomebody, Stock::sessions), Exceeded);
  EXPECT_EQ(limiter.counts_told(10).size(), 1u) << "who asks wants to know";
  limiter.hold(kSomebody, Stock::processes);  // has no limit
  time.now += 11s;
  limiter.hold(kSomebody, Stock::sessions);
  limiter.set_elsewhere(counts[0].name, {1, 0});
  EXPECT_THROW(limiter.hold(kSomebody, Stock::sessions), Exceeded);
  limiter.set_elsewhere(counts[0].name, {0, 0});
  limiter.hold(kSomebody, Stock::sessions);
}

TEST(Limiter, WhatIsHeldIsToldAgainAndItsEndToo) {
  Limiter limiter{for_tenants("sessions=3")};
  limiter.share([] {}, 10s);
  limiter.hold(kSomebody, Stock::sessions);
  EXPECT_EQ(limiter.counts_told(10).size(), 1u);
  limiter.tell_counts_again();
  EXPECT_EQ(limiter.counts_told(10).size(), 1u);
  limiter.release(kSomebody, Stock::sessions);
  const auto over = limiter.counts_told(10);
  ASSERT_EQ(over.size(), 1u);
  EXPECT_EQ(over[0].held, Limiter::Held{});
  limiter.tell_counts_again();
  EXPECT_TRUE(limiter.counts_told(10).empty());
}

TEST(Limiter, TellsWhoWasRefused) {
  Limiter limiter{for_tenants("creations=1/h")};
  std::string told;
  limiter.on_exceeded([&](const Identity& who, Scope scope, std::string_view what) {
    told += who.tenant + ' ' + std::string{name_of(scope)} + ' ' + std::string{what};
  });
  limiter.take(kSomebody, Flow::creations);
  EXPECT_EQ(told, "");
  EXPECT_THROW(limiter.take(kSomebody, Flow::creations), Exceeded);
  EXPECT_EQ(told, "t tenant creations");
}

TEST(Allowance, IsReadAndWritten) {
  const Allowance all =
      parse_allowance(" requests=600/min, creations=30/h,bytes=10g/day,sessions=20,processes=100 ");
  EXPECT_EQ(all.requests, (Rate{600, 60s}));
  EXPECT_EQ(all.creations, (Rate{30, 3600s}));
  EXPECT_EQ(all.bytes, (Rate{10ull << 30, 86400s}));
  EXPECT_EQ(all.sessions, 20u);
  EXPECT_EQ(all.processes, 100u);
  EXPECT_EQ(parse_allowance(to_text(all)), all);
  EXPECT_EQ(parse_allowance(""), Allowance{});
  EXPECT_EQ(to_text(Allowance{}), "");
  EXPECT_EQ(parse_allowance("requests=0/s"), (Allowance{.requests = {0, 1s}}));
}

TEST(Allowance, SaysWhatIsWrong) {
  for (const char* wrong :
       {"requests", "requests=", "requests=5", "requests=5/", "requests=5/week", "requests=-5/s",
        "requests=5.5/s", "requests=5k/s", "bytes=5q/s", "bytes=5kk/s", "bytes=99999999t/s",
        "sessions=5/min", "sessions=x", "=5", "friends=5", "requests=5/s,requests=6/s",
        "requests=99999999999999999999/s"}) {
    EXPECT_THROW(parse_allowance(wrong), Error) << wrong;
  }
}

}  // namespace
}  // namespace tb::limits
