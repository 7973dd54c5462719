// SPDX-License-Identifier: Apache-2.0
// What the server refuses, each through a real connection: never two interpretations.
#include <gtest/gtest.h>

#include "http/test_server.h"

namespace tb::http {
namespace {

struct Case {
  const char* name;
  std::string sent;
  const char* expected;  // The statuses of all responses, until the server closes.
};

std::string post(const std::string& headers, const std::string& body = {}) {
  return "POST /p HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body;
}

std::string get(const std::string& headers) { return "GET /g HTTP/1.1\r\n" + headers + "\r\n"; }

std::string chunked(const std::string& body) {
  return post("Transfer-Encoding: chunked\r\n", body) + get("Host: x\r\nConnection: close\r\n");
}

const std::string kLast = get("Host: x\r\nConnection: close\r\n");
const std::string kNul(1, '\0');

void check_cases(std::initializer_list<Case> cases) {
  TestServer server{echo};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    Wire wire{server.port()};
    wire.send(one.sent);
    EXPECT_EQ(statuses(wire.read_to_end()), one.expected) << wire.text().substr(0, 300);
    EXPECT_TRUE(wire.ended());
  }
}

TEST(HttpStrictness, RequestLine) {
  check_cases({
      {"plain", "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200"},
      {"one empty line first", "\r\n" + kLast, "200"},
      {"two empty lines first", "\r\n\r\n" + kLast, "400"},
      {"bare LF", "GET /a HTTP/1.1\nHost: x\n\n", "400"},
      {"two spaces", "GET  /a HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"a tab", "GET\t/a HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"space at the end", "GET /a HTTP/1.1 \r\nHost: x\r\n\r\n", "400"},
      {"space in the target", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"raw UTF-8 in the target", "GET /\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"NUL in the target", "GET /a" + kNul + " HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"encoded NUL in the path", "GET /a%00b HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"cut escape", "GET /a%2 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"escape not hex", "GET /a%zz HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"escape not hex in the query", "GET /a?b=%g0 HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"fragment", "GET /a#b HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"no slash", "GET a HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"star", "GET * HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"OPTIONS star", "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200"},
      {"absolute", "GET http://x/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200"},
      {"absolute, other host", "GET http://y/a HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
      {"HTTP/0.9", "GET /a\r\n", "400"},
      {"HTTP/1.2", "GET /a HTTP/1.2\r\nHost: x\r\n\r\n", "505"},
      {"HTTP/2.0", "GET /a HTTP/2.0\r\nHost: x\r\n\r\n", "505"},
      {"HTTP/1.10", "GET /a HTTP/1.10\r\nHost: x\r\n\r\n", "400"},
      {"http/1.1", "GET /a http/1.1\r\nHost: x\r\n\r\n", "400"},
      {"HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
      {"TLS hello", "\x16\x03\x01\x02", "400"},
      {"TRACE", "TRACE / HTTP/1.1\r\nHost: x\r\n\r\n", "405"},
      {"CONNECT", "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n", "405"},
      {"PROPFIND", "PROPFIND / HTTP/1.1\r\nHost: x\r\n\r\n", "405"},
      {"lower case", "get / HTTP/1.1\r\nHost: x\r\n\r\n", "405"},
      {"no token", "GE(T / HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
  });
}

TEST(HttpStrictness, Headers) {
  check_cases({
      {"no Host", get(""), "400"},
      {"two Hosts", get("Host: x\r\nHost: x\r\n"), "400"},
      {"Host with a space", get("Host: x y\r\n"), "400"},
      {"Host with a slash", get("Host: x/y\r\n"), "400"},
      {"Host with user info", get("Host: a@x\r\n"), "400"},
      {"no Host in HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", "200"},
      {"two Hosts in HTTP/1.0", "GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", "400"},
      {"folded line", get("Host: x\r\nA: b\r\n c\r\n"), "400"},
      {"folded first line", get(" Host: x\r\n"), "400"},
      {"space before the colon", get("Host : x\r\n"), "400"},
      {"no colon", get("Host: x\r\nA\r\n"), "400"},
      {"no name", get("Host: x\r\n: b\r\n"), "400"},
      {"bare LF", get("Host: x\nA: b\r\n"), "400"},
      {"bare CR", get("Host: x\r\nA: b\rc\r\n"), "400"},
      {"CR CR LF", get("Host: x\r\r\n"), "400"},
      {"NUL", get("Host: x\r\nA: b" + kNul + "\r\n"), "400"},
      {"DEL", get("Host: x\r\nA: b\x7f\r\n"), "400"},
      {"bare LF as the end", "GET / HTTP/1.1\r\nHost: x\r\n\n", "400"},
      {"bytes above ASCII", get("Host: x\r\nA: \xc3\xa4\r\nConnection: close\r\n"), "200"},
      {"empty value", get("Host: x\r\nA:\r\nConnection: close\r\n"), "200"},
      {"unknown expectation", post("Expect: tea\r\n"), "417"},
      {"compressed body", post("Content-Encoding: gzip\r\nContent-Length: 1\r\n", "a"), "415"},
      {"compressed twice",
       post("Content-Encoding: gzip\r\nContent-Encoding: identity\r\nContent-Length: 1\r\n", "a"),
       "415"},
  });
}

TEST(HttpStrictness, Length) {
  check_cases({
      {"good", post("Content-Length: 5\r\n", "hello") + kLast, "200 200"},
      {"zero", post("Content-Length: 0\r\n") + kLast, "200 200"},
      {"twice", post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), "400"},
      {"twice the same", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), "400"},
      {"plus", post("Content-Length: +5\r\n", "hello"), "400"},
      {"minus", post("Content-Length: -5\r\n", "hello"), "400"},
      {"list", post("Content-Length: 5,5\r\n", "hello"), "400"},
      {"two numbers", post("Content-Length: 5 5\r\n", "hello"), "400"},
      {"hex", post("Content-Length: 0x5\r\n", "hello"), "400"},
      {"empty", post("Content-Length:\r\n", "hello"), "400"},
      {"more than 64 bits", post("Content-Length: 99999999999999999999\r\n"), "400"},
      {"all of 64 bits", post("Content-Length: 18446744073709551615\r\n"), "400"},
      {"underscore", post("Content_Length: 5\r\n") + kLast, "200 200"},
      {"with chunked", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
       "400"},
      {"after chunked", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"),
       "400"},
  });
}

TEST(HttpStrictness, TransferEncoding) {
  const std::string end = "0\r\n\r\n";
  check_cases({
      {"good", post("Transfer-Encoding: chunked\r\n", end) + kLast, "200 200"},
      {"capitals", post("Transfer-Encoding: Chunked\r\n", end) + kLast, "200 200"},
      {"unknown", post("Transfer-Encoding: xchunked\r\n", end), "400"},
      {"identity", post("Transfer-Encoding: identity\r\n", end), "400"},
      {"chunked, identity", post("Transfer-Encoding: chunked, identity\r\n", end), "400"},
      {"gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", end), "400"},
      {"chunked, chunked", post("Transfer-Encoding: chunked, chunked\r\n", end), "400"},
      {"twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", end), "400"},
      {"twice, one unknown", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n", end),
       "400"},
      {"vertical tab",
       post("Transfer-Encoding: \x0b"
            "chunked\r\n",
            end),
       "400"},
      {"quoted", post("Transfer-Encoding: \"chunked\"\r\n", end), "400"},
      {"with a parameter", post("Transfer-Encoding: chunked;a=b\r\n", end), "400"},
      {"empty", post("Transfer-Encoding:\r\n", end), "400"},
      {"space before the colon", post("Transfer-Encoding : chunked\r\n", end), "400"},
      {"HTTP/1.0", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + end, "400"},
  });
}

TEST(HttpStrictness, Chunks) {
  check_cases({
      {"good", chunked("5\r\nhello\r\n0\r\n\r\n"), "200 200"},
      {"capitals and zeros", chunked("0A\r\n0123456789\r\n000\r\n\r\n"), "200 200"},
      {"extension", chunked("5;a=b\r\nhello\r\n0;c\r\n\r\n"), "200 200"},
      {"trailers", chunked("0\r\nA: b\r\nContent-Length: 7\r\n\r\n"), "400"},
      {"minus", chunked("-2\r\nhello\r\n0\r\n\r\n"), "400"},
      {"plus", chunked("+5\r\nhello\r\n0\r\n\r\n"), "400"},
      {"0x", chunked("0x5\r\nhello\r\n0\r\n\r\n"), "400"},
      {"17 digits", chunked("00000000000000005\r\nhello\r\n0\r\n\r\n"), "400"},
      {"huge", chunked("ffffffffffffffff\r\nhello"), "400"},
      {"no size", chunked("\r\nhello\r\n0\r\n\r\n"), "400"},
      {"only an extension", chunked(";a\r\nhello\r\n0\r\n\r\n"), "400"},
      {"space before the extension", chunked("5 ;ext\r\nhello\r\n0\r\n\r\n"), "400"},
      {"space after the size", chunked("5 \r\nhello\r\n0\r\n\r\n"), "400"},
      {"space before the size", chunked(" 5\r\nhello\r\n0\r\n\r\n"), "400"},
      {"large extension", chunked("5;" + std::string(1 << 20, 'a') + "\r\nhello\r\n"), "400"},
      {"empty extension", chunked("5;\r\nhello\r\n0\r\n\r\n"), "400"},
      {"quoted extension", chunked("5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n"), "400"},
      {"extension without a value", chunked("5;a=\r\nhello\r\n0\r\n\r\n"), "400"},
      {"NUL in an extension", chunked("5;" + kNul + "\r\nhello\r\n0\r\n\r\n"), "400"},
      {"LF in an extension", chunked("5;a\nhello\r\n0\r\n\r\n"), "400"},
      {"bare LF after the size", chunked("5\nhello\r\n0\r\n\r\n"), "400"},
      {"bare CR after the size", chunked("5\rhello\r\n0\r\n\r\n"), "400"},
      {"longer than said", chunked("5\r\nhello!\r\n0\r\n\r\n"), "400"},
      {"bare LF after the data", chunked("5\r\nhello\n0\r\n\r\n"), "400"},
      {"huge trailers", chunked("0\r\nA: " + std::string(1 << 20, 'a') + "\r\n\r\n"), "400"},
      {"bare LF as the end", chunked("0\r\n\n"), "400"},
  });
}

TEST(HttpStrictness, Sizes) {
  std::string many;
  for (int i = 0; i < 10000; ++i) many += "A: b\r\n";
  std::string hundred;
  for (int i = 0; i < 98; ++i) hundred += "A: b\r\n";
  check_cases({
      {"10 000 headers", get("Host: x\r\n" + many), "431"},
      {"100 headers", get("Host: x\r\nConnection: close\r\n" + hundred), "200"},
      {"101 headers", get("Host: x\r\nConnection: close\r\nA: b\r\n" + hundred), "431"},
      {"a header of 1 MiB", get("Host: x\r\nA: " + std::string(1 << 20, 'a') + "\r\n"), "431"},
      {"a header of 60 KiB",
       get("Host: x\r\nConnection: close\r\nA: " + std::string(60 << 10, 'a') + "\r\n"), "200"},
      {"a URL of 100 KiB", "GET /" + std::string(100 << 10, 'a') + " HTTP/1.1\r\n\r\n", "414"},
      {"a URL of 8 000 bytes",
       "GET /" + std::string(8000, 'a') + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
       "200"},
      {"a method of 64 KiB", std::string(64 << 10, 'A') + " / HTTP/1.1\r\n\r\n", "414"},
      {"a body of 2 MiB", post("Content-Length: 2097152\r\n", std::string(2 << 20, 'a')), "413"},
  });
}

TEST(HttpStrictness, ABodyCutShortIsNotServed) {
  TestServer server{echo};
  Wire wire{server.port()};
  wire.send(post("Content-Length: 10\r\n", "hello"));
  wire.half_close();
  EXPECT_EQ(statuses(wire.read_to_end()), "400");
}

TEST(HttpStrictness, AnEndlessChunkedBodyEndsAtTheLimit) {
  TestServer server{echo};
  Wire wire{server.port()};
  wire.send(post("Transfer-Encoding: chunked\r\n"));
  const std::string chunk = "10000\r\n" + std::string(0x10000, 'a') + "\r\n";
  for (int i = 0; i < 24; ++i) wire.send(chunk);
  EXPECT_EQ(statuses(wire.read_to_end()), "413");
}

// The same bytes in pieces of every size must be read the same way.
TEST(HttpStrictness, ABytewiseRequestIsTheSameRequest) {
  TestServer server{echo};
  const std::string sent =
      post("Transfer-Encoding: chunked\r\n", "3;x\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  for (const std::size_t piece : {1u, 2u, 3u, 7u, 50u}) {
    Wire wire{server.port()};
    for (std::size_t at = 0; at < sent.size(); at += piece) wire.send(sent.substr(at, piece));
    wire.half_close();
    wire.read_to_end();
    EXPECT_EQ(statuses(wire.text()), "200");
    EXPECT_TRUE(wire.text().ends_with("POST /p abcde")) << wire.text();
  }
}

}  // namespace
}  // namespace tb::http
