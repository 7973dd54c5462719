// SPDX-License-Identifier: Apache-2.0
// What the server does with good requests: keeping connections, order, streaming, handlers.
#include "http/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "http/test_server.h"

namespace tb::http {
namespace {

const std::string kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
const std::string kLast = "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

awaitable<void> answer(Exchange& exchange, std::string body) {
  Response response;
  response.body = std::move(body);
  co_await exchange.respond(std::move(response));
}

// Sends `bytes` to a server with this handler and returns all that comes back.
std::string exchange_with(Handler handler, const std::string& bytes) {
  TestServer server{std::move(handler)};
  Wire wire{server.port()};
  wire.send(bytes);
  return wire.read_to_end();
}

TEST(HttpServer, KeepsTheConnection) {
  TestServer server{echo};
  Wire wire{server.port()};
  for (int i = 0; i < 3; ++i) {
    wire.send("POST /n HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n" + std::to_string(i));
    const std::string response = wire.read_until("POST /n " + std::to_string(i));
    EXPECT_TRUE(response.starts_with("HTTP/1.1 200 OK\r\n")) << response;
    EXPECT_EQ(response.find("Connection:"), response.npos);
  }
}

TEST(HttpServer, AnswersAThousandPipelinedRequestsInOrder) {
  TestServer server{echo};
  Wire wire{server.port()};
  std::string requests;
  for (int i = 0; i < 1000; ++i) {
    requests += "GET /" + std::to_string(i) + "/ HTTP/1.1\r\nHost: x\r\n\r\n";
  }
  std::thread sender{[&] {
    wire.send(requests);
    wire.half_close();  // A client that has no more requests still wants its answers.
  }};
  for (int i = 0; i < 1000; ++i) {
    const std::string end = "GET /" + std::to_string(i) + "/ ";
    ASSERT_EQ(statuses(wire.read_until(end)), "200") << i;
  }
  sender.join();
  EXPECT_EQ(wire.read_to_end(), "");
  EXPECT_TRUE(wire.ended());
}

TEST(HttpServer, ClosesWhenAskedTo) {
  const std::string text = exchange_with(echo, kGet + kLast + kGet);
  EXPECT_EQ(statuses(text), "200 200");
  EXPECT_NE(text.find("Connection: close\r\n"), text.npos);
}

TEST(HttpServer, ClosesAfterHttp10UnlessAskedNotTo) {
  EXPECT_EQ(statuses(exchange_with(echo, "GET / HTTP/1.0\r\n\r\n" + kGet)), "200");
  const std::string kept = "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
  const std::string text = exchange_with(echo, kept + "GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(statuses(text), "200 200");
  EXPECT_NE(text.find("Connection: keep-alive\r\n"), text.npos);
}

TEST(HttpServer, SendsNoBodyToHead) {
  const std::string text =
      exchange_with(echo, "HEAD /h HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(statuses(text), "200 200");
  EXPECT_NE(text.find("Content-Length: 8\r\n"), text.npos) << text;
  EXPECT_EQ(text.find("HEAD /h"), text.npos);
}

TEST(HttpServer, SendsContinueWhenTheBodyIsWanted) {
  TestServer server{echo};
  Wire wire{server.port()};
  wire.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(wire.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  wire.send("hi" + kLast);
  EXPECT_EQ(statuses(wire.read_to_end()), "200 200");
}

TEST(HttpServer, SendsNoContinueWhenTheRequestIsRefused) {
  const Handler refuse = [](Exchange&) -> awaitable<void> {
    throw HttpError{403, "no"};
    co_return;
  };
  EXPECT_EQ(statuses(exchange_with(refuse,
                                   "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                                   "Expect: 100-continue\r\n\r\n")),
            "403");
}

TEST(HttpServer, SkipsASmallBodyThatTheHandlerLeft) {
  const Handler ignore = [](Exchange& exchange) { return answer(exchange, "x"); };
  const std::string small = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nGET / HTT";
  const std::string chunked =
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
  EXPECT_EQ(statuses(exchange_with(ignore, small + chunked + kLast)), "200 200 200");
  const std::string large = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n";
  EXPECT_EQ(statuses(exchange_with(ignore, large + kLast)), "200");
}

TEST(HttpServer, StreamsBodiesInBothDirections) {
  const Handler stream = [](Exchange& exchange) -> awaitable<void> {
    Response head;
    co_await exchange.begin(std::move(head), std::nullopt);
    std::array<char, 3> piece;
    for (;;) {
      const std::size_t got = co_await exchange.read_some(piece);
      if (got == 0) break;
      co_await exchange.write({piece.data(), got});
    }
    co_await exchange.end();
  };
  const std::string body = "Host: x\r\nContent-Length: 5\r\n\r\nhello";
  const std::string text = exchange_with(stream, "POST / HTTP/1.1\r\n" + body);
  EXPECT_NE(text.find("Transfer-Encoding: chunked\r\n"), text.npos);
  EXPECT_TRUE(text.ends_with("\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n")) << text;
  const std::string old = exchange_with(stream, "POST / HTTP/1.0\r\n" + body);
  EXPECT_TRUE(old.ends_with("\r\n\r\nhello")) << old;
  EXPECT_EQ(old.find("chunked"), old.npos);
}

// Its first two letters are written, the last three go by themselves: one, none, and two. Nobody
// but a socket may move them.
Handler send_letters(std::optional<std::uint64_t> length) {
  return [length](Exchange& exchange) -> awaitable<void> {
    Response head;
    co_await exchange.begin(std::move(head), length);
    co_await exchange.write("ab");
    bool full = false;
    const Send send = [&full](int socket, std::uint64_t offset,
                              std::uint64_t most) -> awaitable<std::optional<std::size_t>> {
      if (offset == 1 && !std::exchange(full, true)) co_return 0;
      const std::string_view letters = offset == 0 ? "c" : "de";
      co_return ::send(socket, letters.data(), std::min<std::uint64_t>(letters.size(), most), 0);
    };
    const std::uint64_t sent = co_await exchange.write_by(send, 3);
    const std::string_view rest = std::string_view{"CDE"}.substr(sent);
    co_await exchange.write(rest);
    co_await exchange.end();
  };
}

TEST(HttpServer, LetsOthersSendWhereBytesGoAsTheyAre) {
  const std::string counted = exchange_with(send_letters(5), kGet + kLast);
  EXPECT_EQ(statuses(counted), "200 200");
  EXPECT_TRUE(counted.ends_with("\r\n\r\nabcde")) << counted;
  const std::string chunked = exchange_with(send_letters(std::nullopt), kLast);
  EXPECT_TRUE(chunked.ends_with("\r\n\r\n2\r\nab\r\n3\r\nCDE\r\n0\r\n\r\n")) << chunked;
  const std::string head = "HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  EXPECT_TRUE(exchange_with(send_letters(5), head).ends_with("\r\n\r\n"));
}

TEST(HttpServer, WhatOthersCanNotSendIsWritten) {
  const Handler handler = [](Exchange& exchange) -> awaitable<void> {
    Response head;
    co_await exchange.begin(std::move(head), 2);
    const Send send = [](int, std::uint64_t,
                         std::uint64_t) -> awaitable<std::optional<std::size_t>> {
      co_return std::nullopt;
    };
    const std::uint64_t sent = co_await exchange.write_by(send, 2);
    if (sent == 0) co_await exchange.write("ab");
    co_await exchange.end();
  };
  EXPECT_TRUE(exchange_with(handler, kGet + kLast).ends_with("\r\n\r\nab"));
}

TEST(HttpServer, StreamsWithALength) {
  const Handler stream = [](Exchange& exchange) -> awaitable<void> {
    Response head;
    co_await exchange.begin(std::move(head), 4);
    co_await exchange.write("ab");
    co_await exchange.write("cd");
    co_await exchange.end();
  };
  const std::string text = exchange_with(stream, kGet + kLast);
  EXPECT_EQ(statuses(text), "200 200");
  EXPECT_NE(text.find("Content-Length: 4\r\n"), text.npos) << text;
  EXPECT_NE(text.find("\r\n\r\nabcdHTTP/1.1 200"), text.npos) << text;
  EXPECT_TRUE(text.ends_with("\r\n\r\nabcd"));
}

TEST(HttpServer, SendsALargeBodyWhole) {
  const std::string large(20 << 20, 'z');
  const Handler handler = [&](Exchange& exchange) { return answer(exchange, large); };
  const std::string text = exchange_with(handler, kLast);
  EXPECT_EQ(text.size() - text.find("\r\n\r\n") - 4, large.size());
}

TEST(HttpServer, AFailureIsA500WithoutDetailsAndIsTold) {
  std::promise<std::string> told;
  TestServer server{[](Exchange&) -> awaitable<void> {
                      throw std::runtime_error{"secret /path"};
                      co_return;
                    },
                    ServerLimits{},
                    [&](const std::string& where, std::exception_ptr) { told.set_value(where); }};
  Wire wire{server.port()};
  wire.send("GET /last HTTP/1.0\r\nX-Request-Id: job-7\r\n\r\n");
  const std::string& text = wire.read_to_end();
  EXPECT_EQ(statuses(text), "500");
  EXPECT_TRUE(
      text.ends_with(R"({"error":"Internal server error","detail":"Internal server error"})"));
  EXPECT_EQ(told.get_future().get(), "GET /last (request job-7)");
  EXPECT_NE(text.find("X-Request-Id: job-7\r\n"), text.npos);
}

TEST(HttpServer, AnHttpErrorIsItsStatusAndKeepsTheConnection) {
  const Handler handler = [](Exchange&) -> awaitable<void> {
    throw HttpError{404, "No such \"thing\""};
    co_return;
  };
  const std::string text = exchange_with(handler, kGet + kLast);
  EXPECT_EQ(statuses(text), "404 404");
  EXPECT_TRUE(text.ends_with(R"({"error":"No such \"thing\"","detail":"No such \"thing\""})"));
}

TEST(HttpServer, AFailureWithinAStreamedResponseCutsIt) {
  const Handler handler = [](Exchange& exchange) -> awaitable<void> {
    Response head;
    co_await exchange.begin(std::move(head), std::nullopt);
    co_await exchange.write("part");
    throw std::runtime_error{"lost"};
  };
  const std::string text = exchange_with(handler, kGet + kGet);
  EXPECT_EQ(statuses(text), "200");
  EXPECT_TRUE(text.ends_with("4\r\npart\r\n")) << text;
}

TEST(HttpServer, AHandlerThatForgetsToAnswerIsA500) {
  const Handler silent = [](Exchange&) -> awaitable<void> { co_return; };
  EXPECT_EQ(statuses(exchange_with(silent, kLast)), "500");
  const Handler twice = [](Exchange& exchange) -> awaitable<void> {
    co_await answer(exchange, "1");
    co_await answer(exchange, "2");
  };
  EXPECT_EQ(statuses(exchange_with(twice, kGet)), "200");
}

TEST(HttpServer, TellsTheHandlerWhoAsks) {
  const Handler peer = [](Exchange& exchange) {
    const Request& request = exchange.request();
    return answer(exchange, request.peer + ' ' + std::string{*request.headers.find("x-a")});
  };
  const std::string text =
      exchange_with(peer, "GET / HTTP/1.0\r\nX-A: b\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n");
  EXPECT_TRUE(text.ends_with("\r\n\r\n127.0.0.1 b")) << text;
}

TEST(HttpServer, TellsTheHandlerThatThePeerLeft) {
  std::promise<void> started;
  std::promise<bool> left;
  ServerLimits limits;
  limits.tick = 5ms;
  TestServer server{[&](Exchange& exchange) -> awaitable<void> {
                      Signal signal{co_await asio::this_coro::executor};
                      exchange.on_peer_closed([&] { signal.notify_all(); });
                      const bool before = exchange.peer_closed();
                      started.set_value();
                      co_await signal.wait();
                      left.set_value(!before && exchange.peer_closed());
                      co_await answer(exchange, "nobody");
                    },
                    limits};
  Wire wire{server.port()};
  wire.send(kGet);
  started.get_future().get();
  wire.close();
  EXPECT_TRUE(left.get_future().get());
}

}  // namespace
}  // namespace tb::http
