// SPDX-License-Identifier: Apache-2.0
// Deadlines, numbers of connections, and the end of the server.
#include "http/limits.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "http/test_server.h"

namespace tb::http {
namespace {

const std::string kGet = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";

// All deadlines far away, and a fast tick; a test brings one near.
ServerLimits far_limits() {
  ServerLimits limits;
  limits.header = limits.body_idle = limits.keep_alive = limits.write_stall = 1h;
  limits.tick = 5ms;
  return limits;
}

// Sends a byte every few milliseconds until the server has ended the connection.
void trickle(Wire& wire) {
  wire.receive_timeout(5ms);
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  while (!wire.ended() && std::chrono::steady_clock::now() < deadline) {
    wire.send("a");
    wire.read();
  }
}

TEST(HttpDeadlines, AHeadThatTricklesIsCutOff) {
  ServerLimits limits = far_limits();
  limits.header = 60ms;
  TestServer server{echo, limits};
  Wire wire{server.port()};
  wire.send("GET /");
  trickle(wire);
  EXPECT_EQ(statuses(wire.text()), "408");
  EXPECT_TRUE(wire.ended());
}

TEST(HttpDeadlines, ASecondHeadHasItsOwnDeadline) {
  ServerLimits limits = far_limits();
  limits.header = 150ms;
  TestServer server{echo, limits};
  Wire wire{server.port()};
  wire.send(kGet);
  wire.read_until("GET /a ");
  wire.send("G");
  EXPECT_EQ(statuses(wire.read_to_end()), "408");
}

TEST(HttpDeadlines, AConnectionThatSaysNothingIsClosed) {
  ServerLimits limits = far_limits();
  limits.header = 40ms;
  TestServer server{echo, limits};
  Wire wire{server.port()};
  EXPECT_EQ(wire.read_to_end(), "");
  EXPECT_TRUE(wire.ended());
}

TEST(HttpDeadlines, AnIdleConnectionIsClosed) {
  ServerLimits limits = far_limits();
  limits.keep_alive = 40ms;
  TestServer server{echo, limits};
  Wire wire{server.port()};
  wire.send(kGet);
  EXPECT_EQ(statuses(wire.read_to_end()), "200");
  EXPECT_TRUE(wire.ended());
}

TEST(HttpDeadlines, ABodyThatTricklesIsCutOff) {
  ServerLimits limits = far_limits();
  limits.body_idle = 60ms;
  TestServer server{echo, limits};
  Wire wire{server.port()};
  wire.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n");
  trickle(wire);
  EXPECT_EQ(statuses(wire.text()), "408");
  EXPECT_TRUE(wire.ended());
}

TEST(HttpDeadlines, AnExpectedBodyThatNeverComesIsCutOff) {
  ServerLimits limits = far_limits();
  limits.body_idle = 40ms;
  TestServer server{echo, limits};
  Wire wire{server.port()};
  wire.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(statuses(wire.read_to_end()), "100 408");
}

TEST(HttpDeadlines, AReaderThatStopsReadingIsCutOff) {
  std::promise<bool> cut;
  ServerLimits limits = far_limits();
  limits.write_stall = 60ms;
  TestServer server{[&](Exchange& exchange) -> awaitable<void> {
                      const std::string piece(1 << 20, 'a');
                      Response head;
                      co_await exchange.begin(std::move(head), std::nullopt);
                      try {
                        for (int i = 0; i < 100; ++i) co_await exchange.write(piece);
                      } catch (const Disconnected&) {
                        cut.set_value(true);
                        throw;
                      }
                      cut.set_value(false);
                    },
                    limits};
  Wire wire{server.port()};
  wire.send(kGet);
  EXPECT_TRUE(cut.get_future().get());
}

// Sends pieces until the server takes no more, or `time` is over: then true.
bool flood(Wire& wire, const std::string& piece, Milliseconds time, Milliseconds pause = 0ms) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    if (!wire.send(piece)) return false;
    if (pause > 0ms) std::this_thread::sleep_for(pause);
  }
  return true;
}

// A client that reads nothing before it has sent all must not be cut off before it sees why.
TEST(HttpDeadlines, ARefusedUploadIsReadOnWhileItGoesOn) {
  const Handler refuse = [](Exchange&) -> awaitable<void> {
    throw HttpError{413, "too large"};
    co_return;
  };
  for (const bool endless : {false, true}) {
    ServerLimits limits = far_limits();
    limits.linger = 100ms;
    if (endless) limits.linger_most = 250ms;
    TestServer server{refuse, limits};
    Wire wire{server.port()};
    wire.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n");
    if (endless) {
      EXPECT_FALSE(flood(wire, std::string(64 << 10, 'a'), 5s));
      continue;
    }
    EXPECT_TRUE(flood(wire, std::string(64 << 10, 'a'), 300ms));
    EXPECT_EQ(statuses(wire.read_to_end()), "413");
    EXPECT_FALSE(flood(wire, "a", 5s, 1ms));  // A trickle is no upload.
  }
}

TEST(HttpConnections, AreLimitedInAllAndPerAddress) {
  for (const bool per_address : {false, true}) {
    ServerLimits limits = far_limits();
    (per_address ? limits.connections_per_address : limits.connections) = 2;
    TestServer server{echo, limits};
    Wire first{server.port()};
    auto second = std::make_unique<Wire>(server.port());
    for (Wire* wire : {&first, second.get()}) {
      wire->send(kGet);
      EXPECT_EQ(statuses(wire->read_until("GET /a ")), "200");
    }
    Wire third{server.port()};
    EXPECT_EQ(statuses(third.read_to_end()), "503");
    EXPECT_TRUE(third.ended());

    // A place becomes free once the server has seen the end of the second.
    second.reset();
    std::string got;
    for (int i = 0; i < 500 && got != "200"; ++i) {
      Wire again{server.port()};
      again.send(kGet);
      got = statuses(again.read_until("GET /a "));
    }
    EXPECT_EQ(got, "200");
  }
}

TEST(HttpConnections, OfOneAddressAreNotLimitedUnlessAsked) {
  TestServer server{echo, far_limits()};
  std::vector<std::unique_ptr<Wire>> wires;
  for (int i = 0; i < 200; ++i) wires.push_back(std::make_unique<Wire>(server.port()));
  for (const auto& wire : wires) {
    wire->send(kGet);
    ASSERT_EQ(statuses(wire->read_until("GET /a ")), "200");
  }
}

TEST(HttpServerClose, LetsRequestsFinishAndClosesIdleConnections) {
  std::promise<void> started;
  ServerLimits limits = far_limits();
  TestServer server{[&](Exchange& exchange) -> awaitable<void> {
                      if (exchange.request().path == "/slow") {
                        started.set_value();
                        asio::steady_timer timer{co_await asio::this_coro::executor, 60ms};
                        co_await timer.async_wait(asio::use_awaitable);
                      }
                      co_await echo(exchange);
                    },
                    limits};
  Wire idle{server.port()};
  idle.send(kGet);
  idle.read_until("GET /a ");
  Wire busy{server.port()};
  busy.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + kGet);
  started.get_future().get();

  server.stop(5s);
  EXPECT_EQ(idle.read_to_end(), "");
  EXPECT_TRUE(idle.ended());
  EXPECT_EQ(statuses(busy.read_to_end()), "200");  // And not the second one.
  EXPECT_NE(busy.text().find("Connection: close\r\n"), std::string::npos);
}

TEST(HttpServerClose, CancelsWhatDoesNotFinish) {
  std::promise<void> started;
  TestServer server{[&](Exchange& exchange) -> awaitable<void> {
                      started.set_value();
                      Signal never{co_await asio::this_coro::executor};
                      for (;;) co_await never.wait();
                      co_await echo(exchange);
                    },
                    far_limits()};
  Wire busy{server.port()};
  busy.send(kGet);
  started.get_future().get();
  server.stop(20ms);
  EXPECT_EQ(busy.read_to_end(), "");
  EXPECT_TRUE(busy.ended());
}

}  // namespace
}  // namespace tb::http
