// SPDX-License-Identifier: Apache-2.0
#include "api/errors.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "http/exchange.h"

namespace tb::api {
namespace {

namespace json = boost::json;

template <class Failure>
http::Response response_to(Failure failure) {
  return error_response(std::make_exception_ptr(std::move(failure)), "request-7");
}

TEST(Errors, EachCodeHasItsStatus) {
  const struct {
    Code code;
    int status;
    const char* phrase;
  } rows[] = {
      {Code::invalid, 400, "Bad Request"},
      {Code::not_found, 404, "Not Found"},
      {Code::conflict, 409, "Conflict"},
      {Code::limited, 429, "Too Many Requests"},
      {Code::exhausted, 503, "Service Unavailable"},
      {Code::unavailable, 503, "Service Unavailable"},
  };
  for (const auto& row : rows) {
    const http::Response response = response_to(Error{row.code, "what I was doing"});
    EXPECT_EQ(response.status, row.status);
    EXPECT_EQ(response.content_type, "application/json");
    const json::value body = json::parse(response.body);
    EXPECT_EQ(body.at("error").as_string(), "what I was doing");
    EXPECT_EQ(body.at("detail").as_string(), "what I was doing");
    EXPECT_EQ(response.reason, std::string{row.phrase} + ": what I was doing");
    EXPECT_EQ(response.find("Retry-After") != nullptr, row.status == 503 || row.status == 429);
  }
}

TEST(Errors, AnInternalOneShowsAReferenceAndNotItsText) {
  set_log(LogLevel::off, false);
  for (const http::Response& response : {response_to(Error{Code::internal, "secret path"}),
                                         response_to(SystemError{EIO, "secret path"})}) {
    EXPECT_EQ(response.status, 500);
    const json::value body = json::parse(response.body);
    EXPECT_EQ(body.at("reference").as_string(), "request-7");
    EXPECT_TRUE(body.as_object().contains("error"));
    EXPECT_TRUE(body.as_object().contains("detail"));
    EXPECT_EQ(response.body.find("secret"), std::string::npos);
    EXPECT_EQ(response.reason.find("secret"), std::string::npos);
  }
  set_log(LogLevel::info, false);
}

TEST(Errors, HttpErrorsKeepTheirStatus) {
  const http::Response response =
      response_to(http::HttpError{413, "The request body is too large"});
  EXPECT_EQ(response.status, 413);
  EXPECT_EQ(json::parse(response.body).at("detail").as_string(), "The request body is too large");
}

TEST(Errors, HttpErrorsKeepTheirHeaders) {
  const http::Response response =
      response_to(http::HttpError{416, "no", {{"Content-Range", "bytes */9"}}});
  ASSERT_NE(response.find("Content-Range"), nullptr);
  EXPECT_EQ(*response.find("Content-Range"), "bytes */9");
}

TEST(Errors, ARefusalSaysMore) {
  const http::Response response =
      response_to(Refusal{404, "Invalid or expired session", {{"session_id", "x"}}});
  EXPECT_EQ(response.status, 404);
  const json::value body = json::parse(response.body);
  EXPECT_EQ(body.at("error").as_string(), "Invalid or expired session");
  EXPECT_EQ(body.at("session_id").as_string(), "x");
}

TEST(Errors, ALostClientIsNobodyToAnswer) {
  EXPECT_THROW(response_to(http::Disconnected{}), http::Disconnected);
}

TEST(Errors, TextsWithQuotesAreStillJson) {
  const http::Response response = response_to(Error{Code::invalid, "no \"x\"\n\\"});
  EXPECT_EQ(json::parse(response.body).at("error").as_string(), "no \"x\"\n\\");
}

}  // namespace
}  // namespace tb::api
