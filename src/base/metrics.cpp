// SPDX-License-Identifier: Apache-2.0
#include "base/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/utf8.h"

namespace tb {
namespace {

// More than this is no closed set any more.
constexpr std::size_t kMaxSeries = 2000;

bool is_name(std::string_view text, bool colons) {
  if (text.empty() || (text[0] >= '0' && text[0] <= '9')) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           (colons && c == ':');
  });
}

// A help text may hold quotes, a label's value may not.
std::string escape(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || (quotes && c == '"')) out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string render_labels(const Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels) {
    TB_ASSERT(is_name(name, false) && !name.starts_with("__") && name != "le" && is_utf8(value));
    out += (out.empty() ? "" : ",") + name + "=\"" + escape(value, true) + "\"";
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char text[32];  // the shortest form that reads back as the same number has at most 24
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}

void line(std::string& out, const std::string& name, const std::string& labels,
          const std::string& value) {
  out += name;
  if (!labels.empty()) out += "{" + labels + "}";
  out += " " + value + "\n";
}

void render_histogram(const Histogram& histogram, const std::string& name,
                      const std::string& labels, std::string& out) {
  const std::string before = labels.empty() ? "" : labels + ",";
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i <= histogram.bounds().size(); ++i) {
    so_far += histogram.in_bucket(i);
    const bool last = i == histogram.bounds().size();
    const std::string bound = last ? "+Inf" : number(histogram.bounds()[i]);
    line(out, name + "_bucket", before + "le=\"" + bound + "\"", std::to_string(so_far));
  }
  line(out, name + "_sum", labels, number(histogram.sum()));
  line(out, name + "_count", labels, std::to_string(so_far));
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {
  const auto not_rising = [](double a, double b) { return !(a < b); };
  TB_ASSERT(std::adjacent_find(bounds_.begin(), bounds_.end(), not_rising) == bounds_.end());
  TB_ASSERT(std::all_of(bounds_.begin(), bounds_.end(), [](double b) { return std::isfinite(b); }));
}

void Histogram::observe(Seconds duration) {
  // A clock that was set back must not make the sum fall.
  const double seconds = std::max(duration.count(), 0.0);
  const auto bucket = std::lower_bound(bounds_.begin(), bounds_.end(), seconds);
  ++counts_[static_cast<std::size_t>(bucket - bounds_.begin())];
  sum_ += seconds;
}

std::uint64_t Histogram::count() const {
  return std::accumulate(counts_.begin(), counts_.end(), std::uint64_t{0});
}

Registry::Series& Registry::add(std::string_view name, std::string_view help, std::string_view type,
                                const Labels& labels) {
  TB_ASSERT(is_name(name, true) && is_utf8(help));
  TB_ASSERT(++series_count_ <= kMaxSeries);
  auto family = std::find_if(families_.begin(), families_.end(),
                             [&](const Family& known) { return known.name == name; });
  if (family == families_.end()) {
    Family fresh{std::string{name}, std::string{help}, std::string{type}, {}};
    family = families_.insert(families_.end(), std::move(fresh));
  }
  TB_ASSERT(family->type == type && family->help == help);
  std::string rendered = render_labels(labels);
  for (const Series& series : family->series) TB_ASSERT(series.labels != rendered);
  family->series.push_back({std::move(rendered)});
  return family->series.back();
}

Counter& Registry::counter(std::string_view name, std::string_view help, const Labels& labels) {
  TB_ASSERT(name.ends_with("_total"));
  Counter& made = counters_.emplace_back();
  add(name, help, "counter", labels).counter = &made;
  return made;
}

void Registry::counter_read_by(std::string_view name, std::string_view help,
                               std::function<double()> read) {
  TB_ASSERT(name.ends_with("_total"));
  Gauge& made = gauges_.emplace_back();
  made.read_by(std::move(read));
  add(name, help, "counter", {}).gauge = &made;
}

Gauge& Registry::gauge(std::string_view name, std::string_view help, const Labels& labels) {
  Gauge& made = gauges_.emplace_back();
  add(name, help, "gauge", labels).gauge = &made;
  return made;
}

Histogram& Registry::histogram(std::string_view name, std::string_view help,
                               std::span<const double> bounds, const Labels& labels) {
  Histogram& made = histograms_.emplace_back(bounds);
  add(name, help, "histogram", labels).histogram = &made;
  return made;
}

void Registry::render(const Family& family, const Series& series, std::string& out) {
  if (series.counter) {
    line(out, family.name, series.labels, std::to_string(series.counter->value()));
  } else if (series.gauge) {
    line(out, family.name, series.labels, number(series.gauge->value()));
  } else {
    render_histogram(*series.histogram, family.name, series.labels, out);
  }
}

std::string Registry::render() const {
  std::string out;
  for (const Family& family : families_) {
    out += "# HELP " + family.name + " " + escape(family.help, false) + "\n";
    out += "# TYPE " + family.name + " " + family.type + "\n";
    for (const Series& series : family.series) render(family, series, out);
  }
  return out;
}

}  // namespace tb
