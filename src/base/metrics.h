// SPDX-License-Identifier: Apache-2.0
// Numbers about what happens, for Prometheus to collect (text format 0.0.4).
//
// One thread, the loop, moves and renders them: plain integers suffice. A call site holds a
// reference to its number, so counting is an addition and never a look-up. Everything is
// registered at the start, with labels from small closed sets: what a client sends is never a
// label.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tb {

using Seconds = std::chrono::duration<double>;

// Only grows.
class Counter {
 public:
  void add(std::uint64_t more = 1) { value_ += more; }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0;
};

// Goes up and down; or is read from where it is known, at the time of a scrape.
class Gauge {
 public:
  void set(double value) { value_ = value; }
  void add(double more) { value_ += more; }
  // What `read` uses must live as long as the gauge is rendered.
  void read_by(std::function<double()> read) { read_ = std::move(read); }
  double value() const { return read_ ? read_() : value_; }

 private:
  double value_ = 0;
  std::function<double()> read_;
};

// How many durations were at most this long, for a few fixed bounds.
class Histogram {
 public:
  // In seconds, rising.
  explicit Histogram(std::span<const double> bounds);
  void observe(Seconds duration);

  std::uint64_t count() const;
  double sum() const { return sum_; }
  const std::vector<double>& bounds() const { return bounds_; }
  // Of one bucket alone; the last one has no bound.
  std::uint64_t in_bucket(std::size_t index) const { return counts_[index]; }

 private:
  std::vector<double> bounds_;
  std::vector<std::uint64_t> counts_;
  double sum_ = 0;
};

using Labels = std::vector<std::pair<std::string, std::string>>;

// Owns the numbers; references that it gives stay valid as long as it lives. Asking again for a
// name with other labels adds a series to it; a name that is none, another kind or help for a
// known name, and labels that are there already are bugs and abort.
class Registry {
 public:
  Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  Counter& counter(std::string_view name, std::string_view help, const Labels& labels = {});
  Gauge& gauge(std::string_view name, std::string_view help, const Labels& labels = {});
  // A counter that somebody else keeps.
  void counter_read_by(std::string_view name, std::string_view help, std::function<double()> read);
  Histogram& histogram(std::string_view name, std::string_view help, std::span<const double> bounds,
                       const Labels& labels = {});

  std::string render() const;
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
  struct Series {
    std::string labels;  // rendered, without braces
    const Counter* counter = nullptr;
    const Gauge* gauge = nullptr;
    const Histogram* histogram = nullptr;
  };
  struct Family {
    std::string name;
    std::string help;
    std::string type;
    std::vector<Series> series;
  };
  Series& add(std::string_view name, std::string_view help, std::string_view type,
              const Labels& labels);
  static void render(const Family& family, const Series& series, std::string& out);

  std::vector<Family> families_;  // in the order in which they were registered
  std::size_t series_count_ = 0;
  std::deque<Counter> counters_;  // deques: what is in them never moves
  std::deque<Gauge> gauges_;
  std::deque<Histogram> histograms_;
};

// A counter for each value of an enum whose values are 0, 1, 2 …; `values` has their names.
template <class E>
class CounterSet {
 public:
  CounterSet(Registry& registry, std::string_view name, std::string_view help,
             std::string_view label, std::span<const std::string_view> values) {
    for (const std::string_view value : values) {
      const Labels labels{{std::string{label}, std::string{value}}};
      counters_.push_back(&registry.counter(name, help, labels));
    }
  }
  Counter& operator[](E value) const { return *counters_.at(static_cast<std::size_t>(value)); }

 private:
  std::vector<Counter*> counters_;
};

}  // namespace tb
