// SPDX-License-Identifier: Apache-2.0
// The description and the routes are the same list, and the pages are served as promised.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "api/code.h"
#include "api/probes.h"
#include "api/service.h"
#include "api/web_files.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/test_loop.h"
#include "http/test_exchange.h"
#include "sandbox/fake_provider.h"
#include "session/test_parts.h"

namespace tb::api {
namespace {

namespace json = boost::json;
using Names = std::set<std::string>;

class Docs : public testing::Test {
 protected:
  Docs() {
    add_seed_routes(router_, service_);
    add_file_routes(router_, service_);
    add_upload_routes(router_, service_);
    add_file_operation_routes(router_, service_);
    add_status_routes(router_, service_);
    add_metrics_routes(router_, service_);
    add_health_routes(router_, service_);
    add_probe_routes(router_, []() -> awaitable<std::string> { co_return ""; });
    add_process_routes(router_, service_);
    add_session_routes(router_, service_);
    add_tool_routes(router_, service_);
    add_e2b_routes(router_, service_);
    add_registry_routes(router_, service_);
    add_volume_routes(router_, service_);
    add_volume_file_routes(router_, service_);
    add_artifact_routes(router_, service_);
    add_delivery_routes(router_, service_);
    add_webhook_routes(router_, service_);
    add_cluster_routes(router_, service_);
    add_audit_routes(router_, service_);
    add_token_routes(router_, service_);
    add_shell_routes(router_, service_, runs_);
    add_code_routes(router_, service_, contexts_);
    add_docs_routes(router_);
  }

  http::Response get(const std::string& path, const std::string& known = {}) {
    http::TestExchange exchange{"GET", path};
    if (!known.empty()) exchange.add_header("If-None-Match", known);
    loop_.run(router_.handle(exchange));
    return exchange.response;
  }

  TestLoop loop_;
  sandbox::FakeProvider provider_{loop_.executor()};
  session::TestParts parts_;
  session::Sessions sessions_{loop_.executor(), parts_.with(provider_),
                              session::TestParts::settings({})};
  Service service_{sessions_, parts_.metrics, "w1", "host"};
  shell::Runs runs_{loop_.executor()};
  code::Contexts contexts_{loop_.executor(), sessions_, runs_};
  Router router_;
};

// /status/{session_id} as the router writes it.
std::string pattern_of(std::string_view path) {
  std::string pattern;
  bool inside = false;
  for (const char c : path) {
    if (c == '}') inside = false;
    if (!inside) pattern += c;
    if (c == '{') inside = true;
  }
  return pattern;
}

Names described(const json::value& description) {
  Names names;
  for (const auto& [path, methods] : description.at("paths").as_object()) {
    for (const auto& [method, operation] : methods.as_object()) {
      std::string name{method};
      std::transform(name.begin(), name.end(), name.begin(), ::toupper);
      names.insert(name + " " + pattern_of(path));
    }
  }
  return names;
}

TEST_F(Docs, DescribeEveryRouteAndNothingElse) {
  const Names paper = described(json::parse(get("/openapi.json").body));
  const std::vector<std::string> list = router_.routes();
  const Names routed{list.begin(), list.end()};
  for (const std::string& name : routed) {
    EXPECT_TRUE(paper.count(name)) << name << " is not in web/openapi.json";
  }
  for (const std::string& name : paper) {
    EXPECT_TRUE(routed.count(name)) << name << " is described, but no route";
  }
}

TEST_F(Docs, TheDescriptionNamesThisVersion) {
  const http::Response response = get("/openapi.json");
  EXPECT_EQ(response.content_type, "application/json");
  const json::value description = json::parse(response.body);
  EXPECT_EQ(description.at("info").at("version").as_string(), TB_VERSION);
  EXPECT_EQ(description.at("servers").at(0).at("url").as_string(), "/");
}

std::string part(const std::string& page, const std::string& tag) {
  const std::size_t begin = page.find("<" + tag + ">") + tag.size() + 2;
  EXPECT_EQ(page.find("<" + tag, begin), std::string::npos) << "a second " << tag;
  return page.substr(begin, page.find("</" + tag + ">") - begin);
}

TEST_F(Docs, PagesAreWholeAndOnlyTheirOwnScriptMayRun) {
  for (const char* path : {"/docs", "/redoc", "/docs/"}) {
    const http::Response response = get(path);
    EXPECT_EQ(response.status, 200) << path;
    EXPECT_EQ(response.content_type, "text/html; charset=utf-8");
    EXPECT_EQ(*response.find("X-Content-Type-Options"), "nosniff");
    const std::string policy = *response.find("Content-Security-Policy");
    EXPECT_EQ(policy.find("default-src 'none'; "), 0u);
    for (const char* tag : {"script", "style"}) {
      const std::string hash = sha256_base64(part(response.body, tag));
      EXPECT_NE(policy.find(std::string{tag} + "-src 'sha256-" + hash + "'"), std::string::npos);
    }
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    EXPECT_NE(response.body.find(web::shared_js()), std::string::npos);
    EXPECT_NE(response.body.find(web::shared_css()), std::string::npos);
  }
}

TEST_F(Docs, WhatIsKnownIsNotSentAgain) {
  for (const char* path : {"/docs", "/redoc", "/openapi.json"}) {
    const std::string etag = *get(path).find("ETag");
    EXPECT_EQ(etag.size(), 24u);
    for (const std::string& known : {etag, "W/" + etag, "\"x\", " + etag, std::string{"*"}}) {
      const http::Response again = get(path, known);
      EXPECT_EQ(again.status, 304) << known;
      EXPECT_EQ(again.body, "");
      EXPECT_EQ(*again.find("ETag"), etag);
    }
    EXPECT_EQ(get(path, "\"other\"").status, 200);
  }
  EXPECT_NE(*get("/docs").find("ETag"), *get("/redoc").find("ETag"));
}

}  // namespace
}  // namespace tb::api
