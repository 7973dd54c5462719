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
  double percentile(double p) const;  // p in 0…100
  std::size_t count() const { return micros_.size(); }
  // In the order in which they were taken, so that a drift can be seen.
  const std::vector<double>& micros() const { return micros_; }

 private:
  static double to_micros(BenchClock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  }
  std::vector<double> micros_;
  mutable std::vector<double> sorted_;  // as many as when it was last asked for a percentile
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
  // Compared with the value of `against`. `turns` are what it was made of, if it was measured more
  // than once.
  void add_figure(std::string name, double value, std::string unit, std::string against = {},
                  std::vector<double> turns = {});
  std::string to_text() const;
  // With `samples` also every one of them.
  std::string to_json(bool samples = false) const;

 private:
  struct Row {
    std::string name;
    Samples samples;
    std::string against;
    Seed seed;
    double value = 0;
    std::string unit;
    std::vector<double> turns;

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
