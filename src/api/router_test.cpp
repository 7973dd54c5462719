// SPDX-License-Identifier: Apache-2.0
#include "api/router.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/test_loop.h"
#include "http/test_exchange.h"

namespace tb::api {
namespace {

namespace json = boost::json;

// Answers "<name>:captured,captured".
Respond tell(const std::string& name) {
  return [name](Call& call) -> awaitable<http::Response> {
    http::Response response;
    response.body = name + ":";
    for (const std::string& part : call.captured) response.body += part + ",";
    co_return response;
  };
}

http::Response ask(const Router& router, http::TestExchange& exchange) {
  TestLoop loop;
  loop.run(router.handle(exchange));
  EXPECT_TRUE(exchange.answered());
  return exchange.response;
}

http::Response ask(const Router& router, const std::string& method, const std::string& target) {
  http::TestExchange exchange{method, target};
  return ask(router, exchange);
}

Router example() {
  Router router;
  router.add("GET", "/health", tell("health"));
  router.add("POST", "/things", tell("make"));
  router.add("GET", "/things", tell("list"));
  router.add("GET", "/things/{}", tell("show"));
  router.add("DELETE", "/things/{}", tell("remove"));
  router.add("GET", "/things/{}/parts/{}", tell("part"));
  return router;
}

TEST(Router, FindsTheRouteAndCaptures) {
  const Router router = example();
  const struct {
    const char* method;
    const char* target;
    const char* body;
  } rows[] = {
      {"GET", "/health", "health:"},         {"GET", "/health/", "health:"},
      {"GET", "/health?x=1", "health:"},     {"POST", "/things", "make:"},
      {"POST", "/things/", "make:"},         {"GET", "/things", "list:"},
      {"GET", "/things/a-1", "show:a-1,"},   {"GET", "/things/a-1/", "show:a-1,"},
      {"DELETE", "/things/x", "remove:x,"},  {"GET", "/things/a/parts/b", "part:a,b,"},
      {"GET", "/things/a%20b", "show:a b,"}, {"GET", "/things/..", "show:..,"},
  };
  for (const auto& row : rows) {
    const http::Response response = ask(router, row.method, row.target);
    EXPECT_EQ(response.status, 200) << row.target;
    EXPECT_EQ(response.body, row.body) << row.target;
  }
}

TEST(Router, AnOpenEndCapturesAllThatFollows) {
  Router router;
  router.add("GET", "/files/{}", tell("list"));
  router.add("GET", "/files/{}/{*}", tell("read"));
  EXPECT_EQ(ask(router, "GET", "/files/a").body, "list:a,");
  EXPECT_EQ(ask(router, "GET", "/files/a/").body, "list:a,");
  EXPECT_EQ(ask(router, "GET", "/files/a/b").body, "read:a,b,");
  EXPECT_EQ(ask(router, "GET", "/files/a/b/c%20d/e").body, "read:a,b/c d/e,");
  EXPECT_EQ(ask(router, "GET", "/files/a//b/c").body, "read:a,/b/c,");
  EXPECT_EQ(router.routes().back(), "GET /files/{}/{}");
}

TEST(Router, WhatIsNotThereIs404) {
  const Router router = example();
  for (const char* target : {"/", "/healthy", "/Health", "/health/x", "//health", "/health//",
                             "/things/a/parts", "/things/a/parts/b/c", "/%00x"}) {
    if (std::string_view{target} == "/%00x") continue;  // the parser refuses it
    const http::Response response = ask(router, "GET", target);
    EXPECT_EQ(response.status, 404) << target;
    EXPECT_EQ(json::parse(response.body).at("detail").as_string(), "Not Found") << target;
  }
}

TEST(Router, AKnownPathWithAnotherMethodIs405) {
  const Router router = example();
  for (const char* method : {"PUT", "DELETE", "PATCH"}) {
    EXPECT_EQ(ask(router, method, "/health").status, 405) << method;
  }
  const http::Response response = ask(router, "GET", "/things/x/parts/y/");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(json::parse(ask(router, "POST", "/health").body).at("error").as_string(),
            "Method Not Allowed");
}

std::string header(const http::Response& response, const char* name) {
  const std::string* value = response.find(name);
  return value ? *value : "(none)";
}

TEST(Router, ARefusedMethodIsToldWhichOnesThereAre) {
  const Router router = example();
  EXPECT_EQ(header(ask(router, "PUT", "/health"), "Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(header(ask(router, "PUT", "/things/"), "Allow"), "POST, GET, HEAD, OPTIONS");
  EXPECT_EQ(header(ask(router, "POST", "/things/x"), "Allow"), "GET, HEAD, DELETE, OPTIONS");
  EXPECT_EQ(header(ask(router, "PUT", "/nowhere"), "Allow"), "(none)");
  EXPECT_EQ(ask(router, "PUT", "/nowhere").body, R"({"error":"Not Found","detail":"Not Found"})");
}

TEST(Router, OptionsAreTheMethodsOfThePath) {
  const Router router = example();
  const http::Response response = ask(router, "OPTIONS", "/things/x");
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.body, "");
  EXPECT_EQ(header(response, "Allow"), "GET, HEAD, DELETE, OPTIONS");
  EXPECT_EQ(header(ask(router, "OPTIONS", "*"), "Allow"), "GET, HEAD, POST, DELETE, OPTIONS");
  EXPECT_EQ(ask(router, "OPTIONS", "/nowhere").status, 404);
  Router own = example();
  own.add("OPTIONS", "/things", tell("own"));
  EXPECT_EQ(ask(own, "OPTIONS", "/things").body, "own:");
}

TEST(Router, HeadIsAnsweredLikeGet) {
  const Router router = example();
  EXPECT_EQ(ask(router, "HEAD", "/health").body, "health:");
  EXPECT_EQ(ask(router, "HEAD", "/things").body, "list:");
  Router post;
  post.add("POST", "/x", tell("x"));
  EXPECT_EQ(ask(post, "HEAD", "/x").status, 405);
}

TEST(Router, ErrorsOfAHandlerBecomeStatuses) {
  Router router;
  router.add("GET", "/missing", [](Call&) -> awaitable<http::Response> {
    throw Error{Code::not_found, "no such thing"};
    co_return http::Response{};
  });
  const http::Response response = ask(router, "GET", "/missing");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(json::parse(response.body).at("error").as_string(), "no such thing");
}

TEST(Router, AHandlerMayStreamItsAnswer) {
  Router router;
  router.add("GET", "/stream", [](Call& call) -> awaitable<http::Response> {
    http::Response head;
    head.status = 206;
    co_await call.exchange.begin(std::move(head), std::nullopt);
    co_await call.exchange.write("by " + call.request_id);
    co_await call.exchange.end();
    co_return http::Response{};
  });
  router.add("GET", "/broken", [](Call& call) -> awaitable<http::Response> {
    http::Response head;
    co_await call.exchange.begin(std::move(head), 10);
    throw Error{Code::not_found, "too late"};
  });
  router.set_cors({.origins = {"*"}});
  const http::Response response = ask(router, "GET", "/stream");
  EXPECT_EQ(response.status, 206);
  EXPECT_EQ(response.body, "by test-request");
  EXPECT_EQ(header(response, "Vary"), "Origin");

  http::TestExchange exchange{"GET", "/broken"};
  TestLoop loop;
  EXPECT_THROW(loop.run(router.handle(exchange)), Error);
  EXPECT_EQ(exchange.response.status, 200);
}

TEST(Router, ALostClientIsNotAnswered) {
  Router router;
  router.add("GET", "/x", [](Call&) -> awaitable<http::Response> {
    throw http::Disconnected{};
    co_return http::Response{};
  });
  http::TestExchange exchange{"GET", "/x"};
  TestLoop loop;
  EXPECT_THROW(loop.run(router.handle(exchange)), http::Disconnected);
  EXPECT_FALSE(exchange.answered());
}

int post_status(const std::string& type, const char* header, const char* value) {
  const Router router = example();
  http::TestExchange exchange{"POST", "/things", "{}"};
  if (!type.empty()) exchange.add_header("Content-Type", type);
  if (header) exchange.add_header(header, value);
  return ask(router, exchange).status;
}

TEST(Router, FormsThatAnotherSiteCouldSendAreRefused) {
  for (const char* type : {"text/plain", "Text/Plain; charset=utf-8", "multipart/form-data; x",
                           "application/x-www-form-urlencoded"}) {
    EXPECT_EQ(post_status(type, "Origin", "http://evil.example"), 415) << type;
    EXPECT_EQ(post_status(type, "Sec-Fetch-Site", "cross-site"), 415) << type;
    EXPECT_EQ(post_status(type, nullptr, nullptr), 200) << type;  // curl
  }
  EXPECT_EQ(post_status("application/json", "Origin", "http://evil.example"), 200);
}

TEST(Router, OurOwnPagesMaySendForms) {
  const char* form = "multipart/form-data; boundary=x";
  EXPECT_EQ(post_status(form, "Sec-Fetch-Site", "same-origin"), 200);
  EXPECT_EQ(post_status(form, "Origin", "http://x"), 200);  // Host is x
  EXPECT_EQ(post_status(form, "Origin", "https://x"), 200);
  for (const char* site : {"same-site", "none", "Same-Origin", ""}) {
    EXPECT_EQ(post_status(form, "Sec-Fetch-Site", site), 415) << site;
  }
  for (const char* origin : {"http://x:81", "http://y", "http://x.evil", "null", "x", ""}) {
    EXPECT_EQ(post_status(form, "Origin", origin), 415) << origin;
  }
}

// What the browser says of the site goes before names that may resolve to us.
TEST(Router, ASiteThatIsSaidToBeForeignIsForeign) {
  const Router router = example();
  http::TestExchange exchange{"POST", "/things", "{}"};
  exchange.add_header("Content-Type", "text/plain");
  exchange.add_header("Origin", "http://x");
  exchange.add_header("Sec-Fetch-Site", "cross-site");
  EXPECT_EQ(ask(router, exchange).status, 415);
}

TEST(Router, NamesItsRoutes) {
  const std::vector<std::string> routes = example().routes();
  ASSERT_EQ(routes.size(), 6u);
  EXPECT_EQ(routes.front(), "GET /health");
  EXPECT_EQ(routes.back(), "GET /things/{}/parts/{}");
}

// fetch() can send a body of a type that the browser does not name: a Blob without one.
TEST(Router, ABrowserThatNamesNoTypeIsRefusedToo) {
  EXPECT_EQ(post_status("", "Origin", "http://evil.example"), 415);
  EXPECT_EQ(post_status("", "Sec-Fetch-Site", "cross-site"), 415);
}

std::uint64_t counted(const session::Metrics& metrics, const std::string& labels) {
  const std::string text = metrics.registry.render();
  const std::string name = "threadbox_http_requests_total{" + labels + "} ";
  const std::size_t at = text.find(name);
  EXPECT_NE(at, std::string::npos) << labels;
  return at == std::string::npos ? 0 : std::stoull(text.substr(at + name.size()));
}

TEST(Router, RequestsAreCountedByPatternAndNeverByPath) {
  session::Metrics metrics;
  Router router{metrics};
  router.add("GET", "/things/{}", tell("show"));
  router.add("POST", "/things", tell("make"));
  router.add("GET", "/lost", [](Call&) -> awaitable<http::Response> {
    throw http::Disconnected{};
    co_return http::Response{};
  });
  ask(router, "GET", "/things/secret-1");
  ask(router, "HEAD", "/things/secret-2");
  ask(router, "GET", "/secret-3/nowhere");
  ask(router, "DELETE", "/things/secret-4");
  http::TestExchange forged{"POST", "/things", "{}"};
  forged.add_header("Origin", "http://evil.example");
  ask(router, forged);
  http::TestExchange lost{"GET", "/lost"};
  TestLoop loop;
  EXPECT_THROW(loop.run(router.handle(lost)), http::Disconnected);
  const std::string show = R"(method="GET",route="/things/{}",status=)";
  EXPECT_EQ(counted(metrics, show + "\"2xx\""), 2u);
  EXPECT_EQ(counted(metrics, show + "\"4xx\""), 0u);
  EXPECT_EQ(counted(metrics, R"(method="other",route="other",status="4xx")"), 2u);
  EXPECT_EQ(counted(metrics, R"(method="POST",route="/things",status="4xx")"), 1u);
  EXPECT_EQ(counted(metrics, R"(method="GET",route="/lost",status="none")"), 1u);
  EXPECT_EQ(metrics.registry.render().find("secret"), std::string::npos);
}

}  // namespace
}  // namespace tb::api
