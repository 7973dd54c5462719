// SPDX-License-Identifier: Apache-2.0
#include "session/metrics.h"

#include <limits>

#include "base/process_stats.h"

namespace tb::session {
namespace {

constexpr std::array<double, 12> kHttpBounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                             0.1,   0.25,   0.5,   1,    5,     30};
// 1xx never ends a request.
constexpr std::array<const char*, 6> kClasses{"none", nullptr, "2xx", "3xx", "4xx", "5xx"};

}  // namespace

RouteMetrics::RouteMetrics(Registry& registry, const std::string& method,
                           const std::string& pattern)
    : duration_(registry.histogram("threadbox_http_request_duration_seconds",
                                   "Time from a request's head to the end of its answer.",
                                   kHttpBounds, {{"method", method}, {"route", pattern}})) {
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    if (!kClasses[i]) continue;
    by_class_[i] =
        &registry.counter("threadbox_http_requests_total",
                          "Requests by route and class of status; none: nobody was left to answer.",
                          {{"method", method}, {"route", pattern}, {"status", kClasses[i]}});
  }
}

void RouteMetrics::count(int status, Seconds duration) {
  const int index = status / 100;
  Counter* counter = index >= 0 && index < 6 ? by_class_[static_cast<std::size_t>(index)] : nullptr;
  (counter ? counter : by_class_[5])->add();
  duration_.observe(duration);
}

CountedRequest::~CountedRequest() {
  if (route_) route_->count(status, std::chrono::steady_clock::now() - began_);
}

Metrics::Metrics() {
  session_reuse_ratio.read_by([this] {
    const auto reused = static_cast<double>(sessions_reused.value());
    const double asked = reused + static_cast<double>(sessions_created.value());
    return asked > 0 ? reused / asked : std::numeric_limits<double>::quiet_NaN();
  });
  add_process();
}

RouteMetrics& Metrics::route(const std::string& method, const std::string& pattern) {
  return routes_.emplace_back(registry, method, pattern);
}

// The names that every Prometheus client library uses.
void Metrics::add_process() {
  registry
      .gauge("threadbox_build_info", "Always 1; the label says what runs.",
             {{"version", TB_VERSION}})
      .set(1);
  registry.gauge("process_start_time_seconds", "Start of the server, in seconds since 1970.")
      .set(read_process_stats().started);
  registry.counter_read_by("process_cpu_seconds_total", "User and system time of the server.",
                           [] { return read_process_stats().cpu_seconds; });
  registry.gauge("process_resident_memory_bytes", "Resident memory of the server.").read_by([] {
    return static_cast<double>(read_process_stats().resident.count);
  });
  registry.gauge("process_virtual_memory_bytes", "Virtual memory of the server.").read_by([] {
    return static_cast<double>(read_process_stats().virtual_size.count);
  });
  registry.gauge("process_open_fds", "Descriptors that the server has open.").read_by([] {
    return static_cast<double>(count_open_files());
  });
  registry.gauge("process_max_fds", "Descriptors that it may have open.").read_by([] {
    return static_cast<double>(max_open_files());
  });
}

}  // namespace tb::session
