// SPDX-License-Identifier: Apache-2.0
#include "session/metrics.h"

#include <gtest/gtest.h>

#include <set>

namespace tb::session {
namespace {

bool has(const Metrics& metrics, const std::string& line) {
  return ("\n" + metrics.registry.render()).find("\n" + line + "\n") != std::string::npos;
}

TEST(SessionMetrics, StandAlone) {
  const Metrics metrics;
  EXPECT_TRUE(has(metrics, "threadbox_sessions_created_total 0"));
  EXPECT_TRUE(has(metrics, "threadbox_sessions_active 0"));
  EXPECT_TRUE(has(metrics, "threadbox_commands_total{outcome=\"exited0\"} 0"));
  EXPECT_TRUE(has(metrics, "threadbox_validation_failures_total{reason=\"unresolved\"} 0"));
  EXPECT_TRUE(has(metrics, "threadbox_limits_exceeded_total{limit=\"workspace_size\"} 0"));
  EXPECT_TRUE(has(metrics, "threadbox_build_info{version=\"" TB_VERSION "\"} 1"));
}

TEST(SessionMetrics, TheReuseRatioIsOfAllWhoAsked) {
  Metrics metrics;
  EXPECT_TRUE(has(metrics, "threadbox_session_reuse_ratio NaN"));
  metrics.sessions_created.add(1);
  EXPECT_TRUE(has(metrics, "threadbox_session_reuse_ratio 0"));
  metrics.sessions_reused.add(3);
  EXPECT_TRUE(has(metrics, "threadbox_session_reuse_ratio 0.75"));
}

TEST(SessionMetrics, RequestsAreCountedByRouteAndClassOfStatus) {
  Metrics metrics;
  RouteMetrics& show = metrics.route("GET", "/things/{}");
  RouteMetrics& other = metrics.route("other", "other");
  for (const int status : {200, 204, 404, 0}) {
    CountedRequest request{&show};
    request.status = status;
  }
  for (const int status : {599, 600, -1, 150}) other.count(status, Seconds{2});
  const std::string name = "threadbox_http_requests_total";
  const std::string labels = "{method=\"GET\",route=\"/things/{}\",status=";
  EXPECT_TRUE(has(metrics, name + labels + "\"2xx\"} 2"));
  EXPECT_TRUE(has(metrics, name + labels + "\"3xx\"} 0"));
  EXPECT_TRUE(has(metrics, name + labels + "\"4xx\"} 1"));
  EXPECT_TRUE(has(metrics, name + labels + "\"none\"} 1"));
  EXPECT_TRUE(has(metrics, name + "{method=\"other\",route=\"other\",status=\"5xx\"} 3"));
  EXPECT_TRUE(has(metrics,
                  "threadbox_http_request_duration_seconds_count"
                  "{method=\"GET\",route=\"/things/{}\"} 4"));
}

TEST(SessionMetrics, ARequestThatNobodyCountsIsFine) {
  CountedRequest request{nullptr};
  request.status = 200;
}

// What Prometheus' own conventions ask for: a prefix, base units, _total for counters alone.
TEST(SessionMetrics, NamesFollowTheConventions) {
  Metrics metrics;
  metrics.route("GET", "/");
  const std::string text = metrics.registry.render();
  std::set<std::string> names;
  for (std::size_t at = 0; (at = text.find("# TYPE ", at)) != std::string::npos; ++at) {
    const std::string row = text.substr(at + 7, text.find('\n', at) - at - 7);
    const std::string name = row.substr(0, row.find(' '));
    const std::string type = row.substr(row.find(' ') + 1);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_TRUE(name.starts_with("threadbox_") || name.starts_with("process_")) << name;
    EXPECT_EQ(type == "counter", name.ends_with("_total")) << name;
    EXPECT_TRUE(type != "histogram" || name.ends_with("_seconds")) << name;
  }
  EXPECT_GT(names.size(), 30u);
}

}  // namespace
}  // namespace tb::session
