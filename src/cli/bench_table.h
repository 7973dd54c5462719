// SPDX-License-Identifier: Apache-2.0
// Rows of measurements: distributions and single figures, as a table or as JSON.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tb::cli {

using BenchClock = std::chrono::steady_clock;

class Samples {
 public:
  void add(BenchClock::duration time) { micros_.push_back(to_micros(time)); }
  bool empty() const { return micros_.empty(); }
  // p in 0…100; the samples are sorted on first use.
  double percentile(double p) const;
  std::size_t count() const { return micros_.size(); }

 private:
  static double to_micros(BenchClock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  }
  mutable std::vector<double> micros_;
  mutable bool sorted_ = false;
};

// What the seed systems tell of themselves, and how many times faster a row has to be.
struct Seed {
  double ms = 0;  // 0: they tell nothing
  double wanted = 0;
};

class BenchTable {
 public:
  // `against` names the row that this one is compared with by its median; it may come later.
  void add(std::string name, Samples samples, std::string against = {}, Seed seed = {});
  // Compared with the value of `against`.
  void add_figure(std::string name, double value, std::string unit, std::string against = {});
  std::string to_text() const;
  std::string to_json() const;

 private:
  struct Row {
    std::string name;
    Samples samples;
    std::string against;
    Seed seed;
    double value = 0;
    std::string unit;

    double measured() const { return samples.empty() ? value : samples.percentile(50); }
    double factor() const;  // the seed's time by ours; 0: there is none
    bool met() const { return factor() >= seed.wanted; }
  };
  double ratio(const Row& row) const;
  std::string comparison(const Row& row) const;

  std::vector<Row> rows_;
};

// How long `work` takes.
template <class Work>
BenchClock::duration timed(Work work) {
  const auto began = BenchClock::now();
  work();
  return BenchClock::now() - began;
}

}  // namespace tb::cli
