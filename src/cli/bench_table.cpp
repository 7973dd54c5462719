// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_table.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>

namespace tb::cli {
namespace json = boost::json;

double Samples::percentile(double p) const {
  if (micros_.empty()) return 0;
  if (!sorted_) std::sort(micros_.begin(), micros_.end());
  sorted_ = true;
  const auto rank =
      static_cast<std::size_t>(std::ceil(p / 100 * static_cast<double>(micros_.size())));
  return micros_[std::clamp<std::size_t>(rank, 1, micros_.size()) - 1];
}

void BenchTable::add(std::string name, Samples samples, std::string against) {
  Row row;
  row.name = std::move(name);
  row.samples = std::move(samples);
  row.against = std::move(against);
  rows_.push_back(std::move(row));
}

void BenchTable::add_figure(std::string name, double value, std::string unit) {
  Row row;
  row.name = std::move(name);
  row.value = value;
  row.unit = std::move(unit);
  rows_.push_back(std::move(row));
}

double BenchTable::ratio(const Row& row) const {
  for (const Row& other : rows_) {
    if (!row.against.empty() && other.name == row.against && !other.samples.empty()) {
      return row.samples.percentile(50) / other.samples.percentile(50);
    }
  }
  return 0;
}

void BenchTable::print(bool as_json) const {
  if (as_json) {
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
        if (const double r = ratio(row); r > 0) object["ratio_to_bare"] = r;
      }
      list.push_back(std::move(object));
    }
    std::printf("%s\n", json::serialize(list).c_str());
    return;
  }
  std::printf("%-46s %9s %9s %9s  %s\n", "", "p50 ms", "p95 ms", "p99 ms", "p50 against bare");
  for (const Row& row : rows_) {
    if (row.samples.empty()) {
      std::printf("%-46s %9.2f %s\n", row.name.c_str(), row.value, row.unit.c_str());
      continue;
    }
    std::printf("%-46s %9.3f %9.3f %9.3f", row.name.c_str(), row.samples.percentile(50) / 1000,
                row.samples.percentile(95) / 1000, row.samples.percentile(99) / 1000);
    if (const double r = ratio(row); r > 0) std::printf("  %.2f x", r);
    std::printf("\n");
  }
}

}  // namespace tb::cli
