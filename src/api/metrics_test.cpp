// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "api/service.h"
#include "base/log.h"
#include "base/test_loop.h"
#include "http/test_exchange.h"
#include "sandbox/fake_provider.h"
#include "session/test_parts.h"

namespace tb::api {
namespace {

session::PoolSettings two() {
  session::PoolSettings pool;
  pool.size = 0;
  pool.capacity = 2;
  return pool;
}

class MetricsApi : public testing::Test {
 protected:
  MetricsApi() {
    set_log(LogLevel::off, false);
    add_seed_routes(router_, service_);
    add_metrics_routes(router_, service_);
  }
  ~MetricsApi() override { set_log(LogLevel::info, false); }

  http::Response ask(const std::string& method, const std::string& target,
                     const std::string& body = {}) {
    http::TestExchange exchange{method, target, body};
    loop_.run(router_.handle(exchange));
    return exchange.response;
  }
  bool scrape_has(const std::string& line) {
    return ask("GET", "/metrics").body.find("\n" + line + "\n") != std::string::npos;
  }

  TestLoop loop_;
  sandbox::FakeProvider provider_{loop_.executor()};
  session::TestParts parts_;
  session::Sessions sessions_{loop_.executor(), parts_.with(provider_),
                              session::TestParts::settings(two())};
  Service service_{sessions_, parts_.metrics, "w1", "host"};
  Router router_{parts_.metrics};
};

TEST_F(MetricsApi, IsTextThatPrometheusReads) {
  const http::Response response = ask("GET", "/metrics");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_TRUE(response.body.starts_with("# HELP "));
  EXPECT_EQ(response.body.back(), '\n');
  EXPECT_EQ(ask("HEAD", "/metrics").status, 200);
  EXPECT_EQ(ask("POST", "/metrics").status, 405);
}

TEST_F(MetricsApi, TellsWhatThereIsNow) {
  EXPECT_TRUE(scrape_has("threadbox_sessions_active 0"));
  ask("POST", "/create_session", R"({"thread_id": "secret-thread", "user_id": "secret-user"})");
  EXPECT_TRUE(scrape_has("threadbox_sessions_active 1"));
  EXPECT_TRUE(scrape_has("threadbox_pool_used 1"));
  EXPECT_TRUE(scrape_has("threadbox_pool_available 0"));
  EXPECT_TRUE(scrape_has("threadbox_pool_capacity 2"));
  EXPECT_TRUE(scrape_has(
      R"(threadbox_http_requests_total{method="POST",route="/create_session",status="2xx"} 1)"));
}

// H28.
TEST_F(MetricsApi, SaysNothingAboutAnybody) {
  ask("POST", "/create_session", R"({"thread_id": "secret-thread", "user_id": "secret-user"})");
  ask("POST", "/execute", R"({"session_id": "secret-session", "command": "secret-command"})");
  ask("GET", "/secret-path?secret-query");
  EXPECT_EQ(ask("GET", "/metrics").body.find("secret"), std::string::npos);
}

}  // namespace
}  // namespace tb::api
