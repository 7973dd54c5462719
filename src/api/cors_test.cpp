// SPDX-License-Identifier: Apache-2.0
#include "api/cors.h"

#include <gtest/gtest.h>

#include "api/router.h"
#include "base/test_loop.h"
#include "http/test_exchange.h"

namespace tb::api {
namespace {

constexpr const char* kPage = "https://app.example:8443";
constexpr const char* kEvil = "https://evil.example";

struct Question {
  const char* method;
  const char* origin = nullptr;
  const char* type = nullptr;
  const char* wanted = nullptr;  // Access-Control-Request-Method
  const char* headers = nullptr;
};

http::Response ask(const std::vector<std::string>& origins, const Question& question) {
  Router router;
  const Respond done = [](Call&) -> awaitable<http::Response> { co_return http::Response{}; };
  router.add("POST", "/upload", done);
  router.add("GET", "/upload", done);
  router.set_cors({.origins = origins});
  http::TestExchange exchange{question.method, "/upload"};
  const std::pair<const char*, const char*> headers[] = {
      {"Origin", question.origin},
      {"Content-Type", question.type},
      {"Access-Control-Request-Method", question.wanted},
      {"Access-Control-Request-Headers", question.headers}};
  for (const auto& [name, value] : headers) {
    if (value) exchange.add_header(name, value);
  }
  TestLoop loop;
  loop.run(router.handle(exchange));
  return exchange.response;
}

std::string header(const http::Response& response, const char* name) {
  const std::string* value = response.find(name);
  return value ? *value : "(none)";
}

bool permits_anything(const http::Response& response) {
  for (const http::Header& one : response.headers) {
    if (one.name.starts_with("Access-Control-")) return true;
  }
  return false;
}

TEST(Cors, NoPageIsAllowedByDefault) {
  for (const char* origin : {kPage, kEvil, "null"}) {
    EXPECT_FALSE(permits_anything(ask({}, {.method = "GET", .origin = origin})));
    const http::Response preflight =
        ask({}, {.method = "OPTIONS", .origin = origin, .wanted = "POST", .headers = "x-a"});
    EXPECT_EQ(preflight.status, 204);
    EXPECT_FALSE(permits_anything(preflight));
    EXPECT_EQ(header(preflight, "Vary"), "(none)");
  }
}

TEST(Cors, AnAllowedPageMayReadAnswers) {
  const http::Response response = ask({kPage, "http://b"}, {.method = "GET", .origin = kPage});
  EXPECT_EQ(header(response, "Access-Control-Allow-Origin"), kPage);
  EXPECT_EQ(header(response, "Vary"), "Origin");
  EXPECT_NE(header(response, "Access-Control-Expose-Headers").find("X-Request-Id"),
            std::string::npos);
  EXPECT_EQ(header(response, "Access-Control-Allow-Credentials"), "(none)");
  // Errors too: the page wants to know why.
  EXPECT_EQ(header(ask({kPage}, {.method = "PUT", .origin = kPage}), "Access-Control-Allow-Origin"),
            kPage);
}

TEST(Cors, OtherPagesMayNot) {
  for (const char* origin :
       {kEvil, "null", "https://app.example", "https://app.example:8443.evil.example",
        "http://app.example:8443", "https://app.example:8443/", ""}) {
    const http::Response response = ask({kPage}, {.method = "GET", .origin = origin});
    EXPECT_FALSE(permits_anything(response)) << origin;
    EXPECT_EQ(header(response, "Vary"), "Origin");
  }
  EXPECT_FALSE(permits_anything(ask({kPage}, {.method = "GET"})));
  EXPECT_EQ(header(ask({"*"}, {.method = "GET", .origin = kEvil}), "Access-Control-Allow-Origin"),
            kEvil);
}

TEST(Cors, APreflightIsAnswered) {
  const http::Response response = ask(
      {kPage}, {.method = "OPTIONS", .origin = kPage, .wanted = "POST", .headers = "x-a, range"});
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(header(response, "Access-Control-Allow-Origin"), kPage);
  EXPECT_EQ(header(response, "Access-Control-Allow-Methods"), "POST, GET, HEAD, OPTIONS");
  EXPECT_EQ(header(response, "Access-Control-Allow-Headers"), "x-a, range");
  EXPECT_EQ(header(response, "Access-Control-Max-Age"), "600");
  const http::Response odd =
      ask({kPage}, {.method = "OPTIONS", .origin = kPage, .wanted = "POST", .headers = "a;b\"c"});
  EXPECT_EQ(header(odd, "Access-Control-Allow-Headers"), "Content-Type, Range, X-Request-Id");
  EXPECT_FALSE(permits_anything(
      ask({kPage}, {.method = "OPTIONS", .origin = kEvil, .wanted = "POST", .headers = "x-a"})));
}

TEST(Cors, AnAllowedPageMayUploadForms) {
  const char* form = "multipart/form-data; boundary=x";
  EXPECT_EQ(ask({kPage}, {.method = "POST", .origin = kPage, .type = form}).status, 200);
  EXPECT_EQ(ask({"*"}, {.method = "POST", .origin = kEvil, .type = form}).status, 200);
  EXPECT_EQ(ask({kPage}, {.method = "POST", .origin = kEvil, .type = form}).status, 415);
  EXPECT_EQ(ask({}, {.method = "POST", .origin = kPage, .type = form}).status, 415);
}

TEST(Cors, TwoOriginsAreNone) {
  http::TestExchange exchange{"GET", "/"};
  exchange.add_header("Origin", kPage);
  exchange.add_header("Origin", kEvil);
  EXPECT_FALSE(Cors{.origins = {"*"}}.allows(exchange.request()));
}

}  // namespace
}  // namespace tb::api
