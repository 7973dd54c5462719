// SPDX-License-Identifier: Apache-2.0
#include "base/metrics.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace tb {
namespace {

TEST(Metrics, ACounterIsRenderedWithItsHelpAndType) {
  Registry registry;
  Counter& counter = registry.counter("things_total", "Things made.");
  counter.add();
  counter.add(41);
  EXPECT_EQ(registry.render(),
            "# HELP things_total Things made.\n"
            "# TYPE things_total counter\n"
            "things_total 42\n");
}

TEST(Metrics, SeriesOfOneNameStandTogether) {
  Registry registry;
  Counter& a = registry.counter("x_total", "X.", {{"kind", "a"}});
  registry.gauge("y", "Y.").set(-1.5);
  Counter& b = registry.counter("x_total", "X.", {{"kind", "b"}, {"more", "1"}});
  a.add(1);
  b.add(2);
  EXPECT_EQ(registry.render(),
            "# HELP x_total X.\n"
            "# TYPE x_total counter\n"
            "x_total{kind=\"a\"} 1\n"
            "x_total{kind=\"b\",more=\"1\"} 2\n"
            "# HELP y Y.\n"
            "# TYPE y gauge\n"
            "y -1.5\n");
}

TEST(Metrics, ReferencesStayValid) {
  Registry registry;
  Counter& first = registry.counter("first_total", "First.");
  Gauge& gauge = registry.gauge("gauge", "Gauge.");
  for (int i = 0; i < 500; ++i) {
    registry.counter("n_total", "N.", {{"i", std::to_string(i)}});
    registry.gauge("g" + std::to_string(i), "G.");
  }
  first.add(7);
  gauge.set(8);
  EXPECT_NE(registry.render().find("first_total 7\n"), std::string::npos);
  EXPECT_NE(registry.render().find("gauge 8\n"), std::string::npos);
}

TEST(Metrics, AGaugeIsReadWhenItIsRendered) {
  Registry registry;
  double now = 1;
  registry.gauge("g", "G.").read_by([&] { return now; });
  registry.counter_read_by("c_total", "C.", [&] { return now * 2; });
  EXPECT_NE(registry.render().find("\ng 1\n"), std::string::npos);
  now = 2.25;
  EXPECT_NE(registry.render().find("\ng 2.25\n"), std::string::npos);
  EXPECT_NE(registry.render().find("# TYPE c_total counter\nc_total 4.5\n"), std::string::npos);
}

TEST(Metrics, NumbersThatAreNoneAreWrittenAsPrometheusReadsThem) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const struct {
    double value;
    const char* text;
  } rows[] = {{kInfinity, "g +Inf\n"},   {-kInfinity, "g -Inf\n"},
              {std::nan(""), "g NaN\n"}, {0.1, "g 0.1\n"},
              {1e300, "g 1e+300\n"},     {1790000000.25, "g 1790000000.25"}};
  for (const auto& row : rows) {
    Registry registry;
    registry.gauge("g", "G.").set(row.value);
    EXPECT_NE(registry.render().find(row.text), std::string::npos) << registry.render();
  }
}

TEST(Metrics, AHistogramCountsUpToEachBound) {
  Registry registry;
  constexpr std::array<double, 2> kBounds{0.125, 1};
  Histogram& histogram = registry.histogram("h_seconds", "H.", kBounds, {{"l", "v"}});
  for (const double seconds : {0.0625, 0.125, 0.1875, 1.0, 5.0, -3.0}) {
    histogram.observe(Seconds{seconds});
  }
  EXPECT_EQ(histogram.count(), 6u);
  EXPECT_EQ(registry.render(),
            "# HELP h_seconds H.\n"
            "# TYPE h_seconds histogram\n"
            "h_seconds_bucket{l=\"v\",le=\"0.125\"} 3\n"
            "h_seconds_bucket{l=\"v\",le=\"1\"} 5\n"
            "h_seconds_bucket{l=\"v\",le=\"+Inf\"} 6\n"
            "h_seconds_sum{l=\"v\"} 6.375\n"
            "h_seconds_count{l=\"v\"} 6\n");
}

TEST(Metrics, QuotesBackslashesAndNewlinesAreEscaped) {
  Registry registry;
  registry.counter("x_total", "a\\b\n\"c\"", {{"l", "a\\b\n\"c\""}});
  EXPECT_EQ(registry.render(),
            "# HELP x_total a\\\\b\\n\"c\"\n"
            "# TYPE x_total counter\n"
            "x_total{l=\"a\\\\b\\n\\\"c\\\"\"} 0\n");
}

enum class Kind { good, bad };

TEST(Metrics, ASetHasACounterForEachValue) {
  constexpr std::array<std::string_view, 2> kNames{"good", "bad"};
  Registry registry;
  const CounterSet<Kind> set{registry, "k_total", "K.", "kind", kNames};
  set[Kind::bad].add(3);
  const std::string text = registry.render();
  EXPECT_NE(text.find("k_total{kind=\"good\"} 0\nk_total{kind=\"bad\"} 3\n"), std::string::npos);
}

TEST(MetricsDeathTest, MistakesAreFoundAtTheStart) {
  Registry registry;
  registry.counter("x_total", "X.", {{"a", "1"}});
  EXPECT_DEATH(registry.counter("x_total", "X.", {{"a", "1"}}), "");
  EXPECT_DEATH(registry.counter("x_total", "Y.", {{"a", "2"}}), "");
  EXPECT_DEATH(registry.counter("x", "A counter's name ends in _total."), "");
  EXPECT_DEATH(registry.gauge("x_total", "X."), "");
  EXPECT_DEATH(registry.gauge("0x", "X."), "");
  EXPECT_DEATH(registry.gauge("x-y", "X."), "");
  EXPECT_DEATH(registry.gauge("y", "Y.", {{"le", "1"}}), "");
  EXPECT_DEATH(registry.gauge("y", "Y.", {{"a", "\xff"}}), "");
  constexpr std::array<double, 2> kFalling{1, 0.1};
  EXPECT_DEATH(registry.histogram("h", "H.", kFalling), "");
}

// Whoever makes a label of what clients send finds out in the first test.
TEST(MetricsDeathTest, SeriesHaveALimit) {
  Registry registry;
  const auto too_many = [&] {
    for (int i = 0; i < 5000; ++i) registry.counter("x_total", "X.", {{"i", std::to_string(i)}});
  };
  EXPECT_DEATH(too_many(), "");
}

}  // namespace
}  // namespace tb
