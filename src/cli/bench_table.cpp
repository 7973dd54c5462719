// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_table.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>

namespace tb::cli {
namespace json = boost::json;
namespace {

// One line of a table always fits.
template <class... Values>
std::string formatted(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

}  // namespace

double Samples::percentile(double p) const {
  if (micros_.empty()) return 0;
  if (sorted_.size() != micros_.size()) {
    sorted_ = micros_;
    std::sort(sorted_.begin(), sorted_.end());
  }
  const auto rank =
      static_cast<std::size_t>(std::ceil(p / 100 * static_cast<double>(sorted_.size())));
  return sorted_[std::clamp<std::size_t>(rank, 1, sorted_.size()) - 1];
}

void BenchTable::add(std::string name, Samples samples, std::string against, Seed seed) {
  Row row;
  row.name = std::move(name);
  row.samples = std::move(samples);
  row.against = std::move(against);
  row.seed = seed;
  rows_.push_back(std::move(row));
}

void BenchTable::add_figure(std::string name, double value, std::string unit, std::string against,
                            std::vector<double> turns) {
  Row row;
  row.name = std::move(name);
  row.value = value;
  row.unit = std::move(unit);
  row.against = std::move(against);
  row.turns = std::move(turns);
  rows_.push_back(std::move(row));
}

double BenchTable::Row::factor() const {
  const double ours = samples.percentile(50) / 1000;
  return seed.ms > 0 && ours > 0 ? seed.ms / ours : 0;
}

double BenchTable::ratio(const Row& row) const {
  if (row.against.empty()) return 0;
  for (const Row& other : rows_) {
    if (other.name == row.against && other.measured() > 0) {
      return row.measured() / other.measured();
    }
  }
  return 0;
}

// The columns after the measurement; without what a row lacks at its end.
std::string BenchTable::comparison(const Row& row) const {
  const double bare = ratio(row);
  const double factor = row.factor();
  std::string text = bare > 0 ? formatted(" %8.2f x", bare) : "";
  if (factor == 0) return text;
  text.resize(11, ' ');
  text += formatted(" %8.0f %7.1f x", row.seed.ms, factor);
  text += formatted("  %s, %.0f x wanted", row.met() ? "met" : "MISSED", row.seed.wanted);
  return text;
}

std::string BenchTable::to_text() const {
  std::string text = formatted("%-46s %9s %9s %9s %10s %8s %9s  %s\n", "", "p50 ms", "p95 ms",
                               "p99 ms", "ratio", "seed ms", "factor", "verdict");
  for (const Row& row : rows_) {
    if (row.samples.empty()) {
      text += formatted("%-46s %9.2f %-19s", row.name.c_str(), row.value, row.unit.c_str());
    } else {
      text +=
          formatted("%-46s %9.3f %9.3f %9.3f", row.name.c_str(), row.samples.percentile(50) / 1000,
                    row.samples.percentile(95) / 1000, row.samples.percentile(99) / 1000);
    }
    text += comparison(row);
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

std::string BenchTable::to_json(bool samples) const {
  json::array list;
  for (const Row& row : rows_) {
    json::object object{{"name", row.name}};
    if (row.samples.empty()) {
      object["value"] = row.value;
      object["unit"] = row.unit;
    } else {
      object["unit"] = "us";
      object["count"] = row.samples.count();
      for (const int p : {50, 95, 99}) {
        object["p" + std::to_string(p)] = row.samples.percentile(p);
      }
    }
    if (samples) {
      object["samples"] = json::value_from(row.samples.empty() ? row.turns : row.samples.micros());
    }
    if (!row.against.empty()) object["against"] = row.against;
    if (const double r = ratio(row); r > 0) object["ratio_to_bare"] = r;
    if (const double factor = row.factor(); factor > 0) {
      object["seed_ms"] = row.seed.ms;
      object["factor"] = factor;
      object["factor_wanted"] = row.seed.wanted;
      object["verdict"] = row.met() ? "met" : "missed";
    }
    list.push_back(std::move(object));
  }
  return json::serialize(list) + "\n";
}

}  // namespace tb::cli
