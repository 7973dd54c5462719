// SPDX-License-Identifier: Apache-2.0
// Forms through a real connection, and the name that every answer carries.
#include <gtest/gtest.h>

#include "http/multipart.h"
#include "http/test_server.h"

namespace tb::http {
namespace {

const std::string kLast = "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
const std::string kForm =
    "--XX\r\nContent-Disposition: form-data; name=\"session_id\"\r\n\r\ns1\r\n"
    "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n";
const std::string kEnd = "\r\n--XX--\r\n";

// Answers with the names and sizes of a form's parts.
awaitable<void> measure(Exchange& exchange) {
  std::string text;
  const auto type = exchange.request().headers.find("Content-Type");
  if (const auto boundary = find_boundary(type.value_or(""))) {
    MultipartReader reader{exchange, *boundary};
    for (;;) {
      const std::optional<Part> part = co_await reader.next_part();
      if (!part) break;
      std::size_t size = 0;
      for (;;) {
        const std::string_view piece = co_await reader.read();
        if (piece.empty()) break;
        size += piece.size();
      }
      text += part->name + '=' + std::to_string(size) + ' ';
    }
  }
  Response response;
  response.body = text;
  co_await exchange.respond(std::move(response));
}

std::string post(const std::string& headers, const std::string& type = "boundary=XX") {
  return "POST /upload HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; " + type + "\r\n" +
         headers + "\r\n";
}

std::string with_length(const std::string& body) {
  return post("Content-Length: " + std::to_string(body.size()) + "\r\n") + body;
}

std::string in_chunks(const std::string& body, std::size_t piece) {
  std::string text = post("Transfer-Encoding: chunked\r\n");
  for (std::size_t at = 0; at < body.size(); at += piece) {
    const std::string chunk = body.substr(at, piece);
    char size[16];
    std::snprintf(size, sizeof size, "%zx\r\n", chunk.size());
    text += size + chunk + "\r\n";
  }
  return text + "0\r\n\r\n";
}

std::string send(const std::string& bytes, Handler handler = measure) {
  TestServer server{std::move(handler)};
  Wire wire{server.port()};
  std::thread sender{[&] {
    wire.send(bytes);
    wire.half_close();
  }};
  wire.read_to_end();
  sender.join();
  return wire.text();
}

TEST(HttpUpload, KeepsTheConnectionWhateverTheFraming) {
  const std::string body = kForm + std::string(300000, 'd') + kEnd;
  const std::string text = send(with_length(body) + in_chunks(body, 70000) + in_chunks(body, 11) +
                                in_chunks(kForm + kEnd, 1) + kLast);
  EXPECT_EQ(statuses(text), "200 200 200 200 200");
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find("session_id=2 file=300000 ", at)) != text.npos; ++at) {
    ++count;
  }
  EXPECT_EQ(count, 3u);
  EXPECT_NE(text.find("session_id=2 file=0 "), text.npos);
}

TEST(HttpUpload, ALargeBodyComesWholeAndWithoutTheNextRequest) {
  std::string body;
  for (int i = 0; body.size() < 1'000'000; ++i) body += std::to_string(i) + ' ';
  const Handler compare = [&body](Exchange& exchange) -> awaitable<void> {
    std::string got;
    std::vector<char> piece(256 << 10);
    for (;;) {
      const std::size_t size = co_await exchange.read_some(piece);
      if (size == 0) break;
      got.append(piece.data(), size);
    }
    Response response;
    response.body = got == body ? "as it was sent" : std::to_string(got.size());
    co_await exchange.respond(std::move(response));
  };
  const std::string text =
      send(with_length(body) + in_chunks(body, 100000) + with_length(body) + kLast, compare);
  EXPECT_EQ(statuses(text), "200 200 200 200");
  std::size_t same = 0;
  for (std::size_t at = 0; (at = text.find("as it was sent", at)) != text.npos; ++at) ++same;
  EXPECT_EQ(same, 3u);
  const std::string whole = with_length(body);
  EXPECT_EQ(statuses(send(whole.substr(0, whole.size() - 1), compare)), "400");
}

TEST(HttpUpload, ABadFormIsA400) {
  EXPECT_EQ(statuses(send(post("Content-Length: 0\r\n") + kLast)), "400 200");
  EXPECT_EQ(statuses(send(post("Content-Length: 0\r\n", "charset=x") + kLast)), "400 200");
  EXPECT_EQ(statuses(send(with_length(kForm + "cut off") + kLast)), "400 200");
  EXPECT_EQ(statuses(send(with_length("--XX\r\n\r\n" + kEnd) + kLast)), "400 200");
}

TEST(HttpUpload, ABodyShorterThanItsLengthIsNotComplete) {
  const std::string body = kForm + "all of it" + kEnd;
  // Every part is there, but the length promises more.
  const std::string longer = post("Content-Length: " + std::to_string(body.size() + 9) + "\r\n");
  EXPECT_EQ(statuses(send(longer + body)), "400");
  // Less than there is: the form ends in the middle, and the rest is no request.
  const std::string shorter = post("Content-Length: " + std::to_string(body.size() - 9) + "\r\n");
  EXPECT_EQ(statuses(send(shorter + body)), "400 400");
}

TEST(HttpUpload, WaitsForTheBodyWhenTheClientDoes) {
  TestServer server{measure};
  Wire wire{server.port()};
  const std::string body = kForm + "x" + kEnd;
  const std::string length = "Content-Length: " + std::to_string(body.size()) + "\r\n";
  wire.send(post(length + "Expect: 100-continue\r\n"));
  EXPECT_EQ(wire.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  wire.send(body + kLast);
  EXPECT_EQ(statuses(wire.read_to_end()), "200 200");

  // A refusal comes instead of the 100, the body never does, and the connection ends.
  Wire refused{server.port()};
  refused.send(post("Content-Length: 9\r\nExpect: 100-continue\r\n", "charset=x"));
  EXPECT_EQ(statuses(refused.read_until("\r\n\r\n")), "400");
  refused.half_close();
  refused.read_to_end();
  EXPECT_TRUE(refused.ended());
}

std::string request_id(const std::string& text) {
  const std::string name = "X-Request-Id: ";
  const std::size_t at = text.find(name);
  if (at == text.npos || text.find(name, at + 1) != text.npos) return "(not one)";
  return text.substr(at + name.size(), text.find("\r\n", at) - at - name.size());
}

std::string ask_with_id(const std::string& id) {
  return request_id(
      send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Request-Id: " + id + "\r\n\r\n"));
}

TEST(HttpRequestId, IsTheClientsIfItIsAName) {
  EXPECT_EQ(ask_with_id("a"), "a");
  EXPECT_EQ(ask_with_id("Job_7.b-3"), "Job_7.b-3");
  EXPECT_EQ(ask_with_id(std::string(64, 'x')), std::string(64, 'x'));
  for (const std::string& bad : {std::string{}, std::string(65, 'x'), std::string{"a b"},
                                 std::string{"\xc3\xa4"}, std::string{"a\"b"}}) {
    const std::string made = ask_with_id(bad);
    EXPECT_NE(made, bad);
    EXPECT_GE(made.size(), 20u) << bad;
    EXPECT_LE(made.size(), 64u);
  }
}

TEST(HttpRequestId, EveryAnswerHasItsOwn) {
  TestServer server{[](Exchange& exchange) -> awaitable<void> {
    if (exchange.request().path == "/fail") throw std::runtime_error{"secret"};
    exchange.add_response_header("X-Seen", exchange.request().id);
    Response head;
    co_await exchange.begin(std::move(head), 0);
    co_await exchange.end();
  }};
  Wire wire{server.port()};
  wire.send("GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\n" +
            std::string{"GET /fail HTTP/1.1\r\nHost: x\r\n\r\nNONSENSE\r\n\r\n"});
  std::vector<std::string> ids;
  for (const char* status : {"200", "200", "500", "400"}) {
    const std::string head = wire.read_until("\r\n\r\n");
    EXPECT_NE(head.find(std::string{"HTTP/1.1 "} + status), head.npos) << head;
    const std::string id = request_id(head);
    EXPECT_GE(id.size(), 20u) << head;
    const bool seen = head.find("X-Seen: " + id + "\r\n") != head.npos;
    EXPECT_EQ(seen, std::string{"200"} == status) << head;
    for (const std::string& other : ids) EXPECT_NE(id, other);
    ids.push_back(id);
  }
}

}  // namespace
}  // namespace tb::http
