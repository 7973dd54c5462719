// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_table.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace tb::cli {
namespace {

using namespace std::chrono_literals;
namespace json = boost::json;

Samples always(BenchClock::duration time) {
  Samples samples;
  samples.add(time);
  return samples;
}

std::string line_of(const BenchTable& table, const std::string& name) {
  const std::string text = "\n" + table.to_text();
  const std::size_t at = text.find("\n" + name + " ");
  if (at == std::string::npos) return {};
  return text.substr(at + 1, text.find('\n', at + 1) - at - 1);
}

TEST(Samples, TellThePercentileByItsRank) {
  Samples samples;
  for (int i = 100; i >= 1; --i) samples.add(std::chrono::microseconds{i});
  EXPECT_DOUBLE_EQ(samples.percentile(50), 50);
  EXPECT_DOUBLE_EQ(samples.percentile(99), 99);
  EXPECT_DOUBLE_EQ(samples.percentile(100), 100);
  EXPECT_DOUBLE_EQ(Samples{}.percentile(50), 0);
}

TEST(BenchTable, ComparesWithTheBareRowByTheMedian) {
  BenchTable table;
  table.add("ours", always(3ms), "bare");
  table.add("bare", always(2ms));
  EXPECT_EQ(line_of(table, "ours"),
            "ours                                               3.000     3.000     3.000"
            "     1.50 x");
  EXPECT_EQ(line_of(table, "bare"),
            "bare                                               2.000     2.000     2.000");
}

TEST(BenchTable, SaysWhetherTheSeedIsBeatenAsOftenAsWanted) {
  BenchTable table;
  table.add("exact", always(5ms), {}, {50, 10});
  table.add("slower", always(5001us), {}, {50, 10});
  EXPECT_TRUE(line_of(table, "exact").ends_with("      50    10.0 x  met, 10 x wanted"));
  EXPECT_TRUE(line_of(table, "slower").ends_with("      50    10.0 x  MISSED, 10 x wanted"));
}

TEST(BenchTable, KeepsTheColumnsOfARowWithoutABareOne) {
  BenchTable table;
  table.add("bare", always(1ms));
  table.add("with", always(1ms), "bare", {50, 10});
  table.add("without", always(1ms), {}, {50, 10});
  EXPECT_EQ(line_of(table, "with").find("met"), line_of(table, "without").find("met"));
  const std::string head = table.to_text().substr(0, table.to_text().find('\n'));
  EXPECT_EQ(head.find("verdict"), line_of(table, "with").find("met"));
}

TEST(BenchTable, ComparesFiguresByTheirValue) {
  BenchTable table;
  table.add_figure("bare loop", 800, "commands/s");
  table.add_figure("ours", 600, "commands/s", "bare loop");
  EXPECT_TRUE(line_of(table, "ours").ends_with("600.00 commands/s              0.75 x"))
      << line_of(table, "ours");
}

TEST(BenchTable, TellsTheSameAsJson) {
  BenchTable table;
  table.add("bare", always(2ms));
  table.add("ours", always(3ms), "bare", {45, 6});
  table.add("late", always(10ms), "bare", {45, 6});
  table.add_figure("memory", 1.5, "MiB");
  const json::array rows = json::parse(table.to_json()).as_array();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_FALSE(rows[0].as_object().contains("verdict"));
  EXPECT_FALSE(rows[0].as_object().contains("ratio_to_bare"));
  EXPECT_EQ(rows[1].at("unit").as_string(), "us");
  EXPECT_DOUBLE_EQ(rows[1].at("p50").as_double(), 3000);
  EXPECT_DOUBLE_EQ(rows[1].at("ratio_to_bare").as_double(), 1.5);
  EXPECT_DOUBLE_EQ(rows[1].at("seed_ms").as_double(), 45);
  EXPECT_DOUBLE_EQ(rows[1].at("factor").as_double(), 15);
  EXPECT_DOUBLE_EQ(rows[1].at("factor_wanted").as_double(), 6);
  EXPECT_EQ(rows[1].at("verdict").as_string(), "met");
  EXPECT_EQ(rows[2].at("verdict").as_string(), "missed");
  EXPECT_DOUBLE_EQ(rows[3].at("value").as_double(), 1.5);
  EXPECT_FALSE(rows[1].as_object().contains("samples"));
}

TEST(BenchTable, TellsSamplesInTheOrderOfTime) {
  Samples samples;
  for (const auto time : {3ms, 1ms, 2ms}) samples.add(time);
  BenchTable table;
  table.add("ours", std::move(samples), "bare");
  table.add_figure("rate", 150, "commands/s", "bare loop", {200, 100});
  const json::array rows = json::parse(table.to_json(true)).as_array();
  EXPECT_DOUBLE_EQ(rows[0].at("p50").as_double(), 2000);
  EXPECT_EQ(rows[0].at("samples"), json::value_from(std::vector<double>{3000, 1000, 2000}));
  EXPECT_EQ(rows[0].at("against").as_string(), "bare");
  EXPECT_EQ(rows[1].at("samples"), json::value_from(std::vector<double>{200, 100}));
}

}  // namespace
}  // namespace tb::cli
