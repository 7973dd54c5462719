// SPDX-License-Identifier: Apache-2.0
#include "http/message.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "http/chars.h"
#include "http/serialize.h"
#include "http/target.h"

namespace tb::http {
namespace {

Request request_to(std::string target) {
  Request request;
  request.method = "GET";
  request.target = std::move(target);
  request.headers.add("Host", "x");
  parse_target(request);
  return request;
}

TEST(HttpHeaders, AreFoundInAnyCase) {
  Headers headers;
  headers.add("Content-Type", "a");
  headers.add("X-Y", "b");
  headers.add("x-y", "c");
  EXPECT_EQ(headers.find("content-type"), "a");
  EXPECT_EQ(headers.find("X-y"), "b");
  EXPECT_EQ(headers.count("x-Y"), 2u);
  EXPECT_EQ(headers.find("X-"), std::nullopt);
  headers.clear();
  EXPECT_EQ(headers.find("X-Y"), std::nullopt);
}

TEST(HttpTarget, IsSplitAndDecoded) {
  const Request request = request_to("/a%20b/c%2Fd?x=1+2&y=%26%3d&z&&=v&x=3");
  EXPECT_EQ(request.path, "/a b/c/d");
  ASSERT_EQ(request.query.size(), 5u);
  EXPECT_EQ(*request.find_query("x"), "1 2");
  EXPECT_EQ(*request.find_query("y"), "&=");
  EXPECT_EQ(*request.find_query("z"), "");
  EXPECT_EQ(*request.find_query(""), "v");
  EXPECT_EQ(request.find_query("w"), nullptr);
}

TEST(HttpTarget, PlusIsASpaceInTheQueryOnly) {
  const Request request = request_to("/a+b?c=d+e");
  EXPECT_EQ(request.path, "/a+b");
  EXPECT_EQ(*request.find_query("c"), "d e");
}

TEST(HttpTarget, AnAbsoluteTargetMustNameTheHost) {
  EXPECT_EQ(request_to("http://x/a?b=c").path, "/a");
  EXPECT_EQ(request_to("HTTP://X").path, "/");
  EXPECT_EQ(*request_to("http://x?b=c").find_query("b"), "c");
  EXPECT_THROW(request_to("http://y/a"), HttpError);
  EXPECT_THROW(request_to("ftp://x/a"), HttpError);
  EXPECT_THROW(request_to("http:///a"), HttpError);
}

TEST(PercentDecode, RefusesBadEscapes) {
  EXPECT_EQ(percent_decode("%41%6a"), "Aj");
  EXPECT_EQ(percent_decode("%"), std::nullopt);
  EXPECT_EQ(percent_decode("%4"), std::nullopt);
  EXPECT_EQ(percent_decode("%4g"), std::nullopt);
  EXPECT_EQ(percent_decode("%-1"), std::nullopt);
}

TEST(HttpErrorResponse, IsJsonWhateverTheText) {
  const Response response = error_response(400, "a\"b\\c\n\x01\xff");
  EXPECT_EQ(response.body, R"({"error":"a\"b\\c\u000a\u0001?","detail":"a\"b\\c\u000a\u0001?"})");
  EXPECT_EQ(response.content_type, "application/json");
}

std::string head_of(const Response& response) {
  std::string out;
  HeadFraming framing;
  framing.length = 3;
  append_head(out, response, framing);
  return out;
}

TEST(HttpSerialize, WritesTheHead) {
  Response response;
  response.status = 404;
  response.content_type = "text/plain";
  response.headers = {{"X-A", "b"}, {"Connection", "close"}};
  EXPECT_EQ(head_of(response),
            "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nX-A: b\r\n"
            "Content-Length: 3\r\n\r\n");
  EXPECT_TRUE(asks_to_close(response));
}

TEST(HttpSerialize, SendsAReasonOnlyIfItIsPrintable) {
  Response response;
  response.reason = "As You Like It";
  EXPECT_TRUE(head_of(response).starts_with("HTTP/1.1 200 As You Like It\r\n"));
  response.reason = "OK\r\nX: y";
  EXPECT_TRUE(head_of(response).starts_with("HTTP/1.1 200 OK\r\nContent-Length"));
}

TEST(HttpSerialize, RefusesHeadersThatWouldSplitTheResponse) {
  const Header bad[] = {{"X", "a\r\nSet-Cookie: b"},
                        {"X", "a\nb"},
                        {"X", std::string("a\0b", 3)},
                        {"X Y", "a"},
                        {"", "a"},
                        {"X:", "a"},
                        {"Content-Length", "3"},
                        {"transfer-encoding", "chunked"}};
  for (const Header& header : bad) {
    Response response;
    response.headers = {header};
    EXPECT_THROW(head_of(response), Error) << header.name << ": " << header.value;
  }
  Response response;
  response.content_type = "a\r\nb";
  EXPECT_THROW(head_of(response), Error);
}

TEST(HttpSerialize, WritesDatesAsHttpDoes) {
  EXPECT_EQ(http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
}

}  // namespace
}  // namespace tb::http
