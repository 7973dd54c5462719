// SPDX-License-Identifier: Apache-2.0
// WebSockets of the server, through real sockets.
#include "http/websocket.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/test_loop.h"
#include "http/test_frames.h"
#include "http/test_server.h"
#include "http/test_websocket.h"

namespace tb::http {
namespace {

const std::string kAsk =
    "GET /ws HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

// Sends every message back, as what it was.
Handler echo_with(WebSocketOptions options) {
  return [options](Exchange& exchange) -> awaitable<void> {
    WebSocket* socket = co_await exchange.upgrade(options);
    while (auto message = co_await socket->receive()) {
      if (message->text) {
        co_await socket->send_text(message->data);
      } else {
        co_await socket->send_binary(message->data);
      }
    }
  };
}

// Asks for a WebSocket and is let in.
struct Client : Wire {
  explicit Client(const TestServer& server, const std::string& more = {}) : Wire(server.port()) {
    send(kAsk + more);
    head = read_until("\r\n\r\n");
  }
  std::string head;
};

// What an echo server says to these frames, up to the end of the connection.
std::string echoed(const std::string& frames, WebSocketOptions options = {}) {
  TestServer server{echo_with(options)};
  Client client{server, frames};
  const std::string text = client.read_to_end();
  EXPECT_TRUE(client.ended());
  return text;
}

// The code of the close frame that `bytes` consist of; 0 when they are something else.
int close_code(std::string_view bytes) {
  if (bytes.size() < 4 || bytes[0] != '\x88') return 0;
  return static_cast<std::uint8_t>(bytes[2]) << 8 | static_cast<std::uint8_t>(bytes[3]);
}

const std::string kBye = masked(Opcode::close, close_payload(1000));
const std::string kByeBack = unmasked(Opcode::close, close_payload(1000));

TEST(WebSocket, IsAcceptedWithTheKeysAnswer) {
  WebSocketOptions options;
  options.headers.push_back({"X-More", "yes"});
  TestServer server{echo_with(options)};
  Client client{server};
  EXPECT_TRUE(client.head.starts_with("HTTP/1.1 101 Switching Protocols\r\n")) << client.head;
  for (const char* header :
       {"\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n", "\r\nUpgrade: websocket\r\n",
        "\r\nConnection: Upgrade\r\n", "\r\nX-More: yes\r\n", "\r\nX-Request-Id: "}) {
    EXPECT_NE(client.head.find(header), std::string::npos) << header;
  }
  EXPECT_EQ(client.head.find("Content-Length"), std::string::npos);
  EXPECT_EQ(client.head.find("Transfer-Encoding"), std::string::npos);
}

TEST(WebSocket, EchoesWhatCameWithTheRequestAndAfterIt) {
  const std::string large(100000, 'x');
  const std::string frames = masked(Opcode::text, "hello") + masked(Opcode::binary, large) +
                             masked(Opcode::binary, "a", false) + masked(Opcode::ping, "p") +
                             masked(Opcode::continuation, "b") + kBye;
  EXPECT_EQ(echoed(frames), unmasked(Opcode::text, "hello") + unmasked(Opcode::binary, large) +
                                unmasked(Opcode::pong, "p") + unmasked(Opcode::binary, "ab") +
                                kByeBack);
}

TEST(WebSocket, AnswersACloseWithItsCode) {
  EXPECT_EQ(echoed(masked(Opcode::close, "")), unmasked(Opcode::close, ""));
  EXPECT_EQ(close_code(echoed(masked(Opcode::close, close_payload(4321, "why")))), 4321);
}

TEST(WebSocket, EndsViolationsWithTheRightCode) {
  EXPECT_EQ(close_code(echoed(unmasked(Opcode::text, "a"))), 1002);
  EXPECT_EQ(close_code(echoed(masked(Opcode::text, "\xff") + kBye)), 1007);
  WebSocketOptions small;
  small.message = Bytes{10};
  EXPECT_EQ(close_code(echoed(masked(Opcode::binary, "0123456789a"), small)), 1009);
  EXPECT_EQ(close_code(echoed(masked(Opcode::close, "\x01"))), 1002);
}

TEST(WebSocket, EndsContinuationsWithoutEnd) {
  std::string frames = masked(Opcode::binary, std::string(1000, 'x'), false);
  for (int i = 0; i < 2000; ++i) {
    frames += masked(Opcode::continuation, std::string(1000, 'x'), false);
  }
  EXPECT_EQ(close_code(echoed(frames)), 1009);
}

TEST(WebSocket, EndsAFloodOfPings) {
  WebSocketOptions options;
  options.controls = 10;
  std::string frames;
  for (int i = 0; i < 1000; ++i) frames += masked(Opcode::ping, "");
  const std::string text = echoed(frames, options);
  const std::string pongs = text.substr(0, text.find('\x88'));
  EXPECT_EQ(pongs.size() % 2, 0u);
  EXPECT_LE(pongs.size() / 2, 20u);
  EXPECT_EQ(close_code(text.substr(pongs.size())), 1008);
}

TEST(WebSocket, IsRefusedWithAStatusAndTheConnectionStays) {
  TestServer server{echo_with({})};
  Wire wire{server.port()};
  wire.send("GET /ws HTTP/1.1\r\nHost: x\r\n\r\n");
  const std::string text = wire.read_until("\r\n\r\n");
  EXPECT_EQ(statuses(text), "426");
  EXPECT_NE(text.find("\r\nSec-WebSocket-Version: 13\r\n"), text.npos);
  EXPECT_NE(text.find("\r\nConnection: Upgrade\r\n"), text.npos);
  wire.read_until("}");
  wire.send(kAsk + kBye);
  EXPECT_EQ(statuses(wire.read_until("\r\n\r\n")), "101");
  EXPECT_EQ(wire.read_to_end(), kByeBack);
}

TEST(WebSocket, TakesNoRequestWithABody) {
  TestServer server{echo_with({})};
  Wire wire{server.port()};
  std::string ask = kAsk;
  ask.insert(ask.size() - 2, "Content-Length: 3\r\n");
  wire.send(ask + "abc");
  EXPECT_EQ(statuses(wire.read_until("}")), "400");
}

TEST(WebSocket, IsClosedForAHandlerThatReturnsOrThrows) {
  const Handler returns = [](Exchange& exchange) -> awaitable<void> {
    const WebSocketOptions options;
    co_await exchange.upgrade(options);
  };
  const Handler throws = [](Exchange& exchange) -> awaitable<void> {
    const WebSocketOptions options;
    co_await exchange.upgrade(options);
    throw Error{Code::internal, "a bug"};
  };
  TestServer good{returns};
  EXPECT_EQ(close_code(Client{good}.read_to_end()), 1000);
  std::atomic<int> failures = 0;
  TestServer bad{throws, {}, [&](const std::string&, std::exception_ptr) { ++failures; }};
  EXPECT_EQ(close_code(Client{bad}.read_to_end()), 1011);
  EXPECT_EQ(failures, 1);
}

TEST(WebSocket, GoesAwayWithTheServer) {
  TestServer server{echo_with({})};
  Client client{server, masked(Opcode::text, "a")};
  client.read_until("a");
  server.start_close(5s);
  EXPECT_EQ(close_code(client.read_to_end()), 1001);
  EXPECT_TRUE(client.ended());
  client.close();
  server.stop(Milliseconds{0});
}

// How the handler's receive() ended.
struct Watched {
  Handler handler(WebSocketOptions options) {
    return [this, options](Exchange& exchange) -> awaitable<void> {
      WebSocket* socket = co_await exchange.upgrade(options);
      try {
        while (co_await socket->receive()) {
        }
        end.set_value(socket->closed()->by_peer ? "closed by peer" : "closed by us");
      } catch (const Disconnected&) {
        end.set_value("disconnected");
        throw;
      }
    };
  }
  std::string wait() {
    auto future = end.get_future();
    return future.wait_for(5s) == std::future_status::ready ? future.get() : "nothing";
  }
  std::promise<std::string> end;
};

TEST(WebSocket, NoticesAClientThatVanishes) {
  ServerLimits limits;
  limits.tick = 5ms;
  WebSocketOptions options;
  options.ping = options.pong = 20ms;
  Watched silent;
  TestServer server{silent.handler(options), limits};
  Client client{server};
  EXPECT_EQ(silent.wait(), "disconnected");
  EXPECT_EQ(client.read_to_end(), unmasked(Opcode::ping, ""));
}

TEST(WebSocket, KeepsAClientThatAnswersPings) {
  ServerLimits limits;
  limits.tick = 5ms;
  WebSocketOptions options;
  options.ping = 10ms;
  options.pong = 5s;
  TestServer server{echo_with(options), limits};
  Client client{server};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(client.read_until(unmasked(Opcode::ping, "")), unmasked(Opcode::ping, ""));
    client.send(masked(Opcode::pong, ""));
  }
}

TEST(WebSocket, NoticesTheEndInTheMiddleOfAFrame) {
  Watched cut;
  TestServer server{cut.handler({})};
  Client client{server, masked(Opcode::text, "abc").substr(0, 7)};
  client.half_close();
  EXPECT_EQ(cut.wait(), "disconnected");
  Watched polite;
  TestServer other{polite.handler({})};
  Client leaving{other, kBye};
  EXPECT_EQ(polite.wait(), "closed by peer");
}

TEST(WebSocket, DropsAClientThatTakesNothing) {
  ServerLimits limits;
  limits.tick = 5ms;
  limits.write_stall = 50ms;
  WebSocketOptions options;
  options.ping = 10ms;  // Ends reads often; that must neither end nor prolong a write.
  std::promise<bool> dropped;
  const Handler flood = [&](Exchange& exchange) -> awaitable<void> {
    WebSocket* socket = co_await exchange.upgrade(options);
    auto executor = co_await asio::this_coro::executor;
    auto reader = [socket]() -> awaitable<void> {
      while (co_await socket->receive()) {
      }
    };
    auto writer = [&, socket]() -> awaitable<void> {
      const std::string data(1 << 20, 'x');
      try {
        for (;;) co_await socket->send_binary(data);
      } catch (const Disconnected&) {
        dropped.set_value(true);
        throw;
      }
    };
    auto both =
        asio::experimental::make_parallel_group(asio::co_spawn(executor, reader, asio::deferred),
                                                asio::co_spawn(executor, writer, asio::deferred));
    co_await both.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  };
  TestServer server{flood, limits};
  Client client{server};
  EXPECT_EQ(dropped.get_future().wait_for(5s), std::future_status::ready);
}

TEST(WebSocket, WaitsForAReaderThatWasSlowWhilePingsCameDue) {
  ServerLimits limits;
  limits.tick = 1ms;
  WebSocketOptions options;
  options.ping = 2ms;
  options.pong = 1h;
  const std::string data(16 << 20, 'x');  // More than the kernel holds for us.
  std::promise<void> ticked;
  const Handler sends = [&](Exchange& exchange) -> awaitable<void> {
    WebSocket* socket = co_await exchange.upgrade(options);
    auto executor = co_await asio::this_coro::executor;
    auto reader = [socket]() -> awaitable<void> {
      while (co_await socket->receive()) {
      }
    };
    auto writer = [&, socket]() -> awaitable<void> { co_await socket->send_binary(data); };
    auto clock = [&, executor]() -> awaitable<void> {
      asio::steady_timer timer{executor, 30ms};
      co_await timer.async_wait(asio::use_awaitable);
      ticked.set_value();
    };
    auto all =
        asio::experimental::make_parallel_group(asio::co_spawn(executor, reader, asio::deferred),
                                                asio::co_spawn(executor, writer, asio::deferred),
                                                asio::co_spawn(executor, clock, asio::deferred));
    co_await all.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  };
  TestServer server{sends, limits};
  Client client{server};
  ticked.get_future().wait();
  std::size_t size = client.text().size();
  client.forget();
  for (; size < data.size() && client.read(); client.forget()) size += client.text().size();
  EXPECT_GE(size, data.size());
  client.send(kBye);
}

TEST(WebSocket, SendsAndReceivesAtOnce) {
  constexpr int kCount = 200;
  const std::string data(20000, 'y');
  ServerLimits limits;
  limits.tick = 1ms;
  WebSocketOptions options;
  options.ping = 2ms;
  const Handler both_ways = [&](Exchange& exchange) -> awaitable<void> {
    WebSocket* socket = co_await exchange.upgrade(options);
    auto executor = co_await asio::this_coro::executor;
    auto writer = [&, socket]() -> awaitable<void> {
      for (int i = 0; i < kCount; ++i) co_await socket->send_binary(data);
      const std::string_view last = "last";
      co_await socket->send_text(last);
    };
    auto reader = [socket]() -> awaitable<void> {
      while (co_await socket->receive()) {
      }
    };
    auto both =
        asio::experimental::make_parallel_group(asio::co_spawn(executor, reader, asio::deferred),
                                                asio::co_spawn(executor, writer, asio::deferred));
    co_await both.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  };
  TestServer server{both_ways, limits};
  Client client{server};
  std::thread sender{[&] {
    for (int i = 0; i < kCount; ++i) {
      client.send(masked(Opcode::binary, data));
      if (i % 10 == 0) client.send(masked(Opcode::ping, "p" + std::to_string(i)));
    }
  }};
  // As frames, whatever pings and pongs stand between them.
  WebSocketParser parser{WebSocketParser::Sender::server, {}};
  int messages = 0;
  bool last = false;
  while (!last && client.read()) {
    std::string_view rest = client.text();
    for (WebSocketParser::Event event; !rest.empty();) {
      rest.remove_prefix(parser.parse(rest, event));
      ASSERT_NE(event.kind, WebSocketParser::Kind::violation) << event.data;
      if (event.kind == WebSocketParser::Kind::binary) messages += event.data == data;
      last = last || event.kind == WebSocketParser::Kind::text;
    }
    client.forget();
  }
  sender.join();
  EXPECT_TRUE(last);
  EXPECT_EQ(messages, kCount);
}

TEST(WebSocket, CanBeTestedWithoutASocket) {
  TestLoop loop;
  TestWebSocketExchange exchange{"/ws", masked(Opcode::text, "hello") + kBye};
  const Handler handler = echo_with({});
  loop.run(handler(exchange));
  EXPECT_EQ(exchange.response.status, 101);
  EXPECT_EQ(exchange.sent(), unmasked(Opcode::text, "hello") + kByeBack);
}

TEST(WebSocket, SendsNothingAfterAClose) {
  std::promise<std::string> told;
  const Handler closes = [&](Exchange& exchange) -> awaitable<void> {
    const WebSocketOptions options;
    WebSocket* socket = co_await exchange.upgrade(options);
    const std::string reason(200, 'r');
    co_await socket->close(4000, reason);
    std::string what;
    try {
      co_await socket->send_text(reason);
    } catch (const Disconnected&) {
      what = "refused, ";
    }
    auto message = co_await socket->receive();
    what += message ? message->data : "";
    message = co_await socket->receive();
    told.set_value(what + (message ? "open" : ", over"));
  };
  TestServer server{closes};
  Client client{server, masked(Opcode::text, "late") + masked(Opcode::close, close_payload(4000))};
  EXPECT_EQ(client.read_to_end(),
            unmasked(Opcode::close, close_payload(4000, std::string(123, 'r'))));
  EXPECT_EQ(told.get_future().get(), "refused, late, over");
}

}  // namespace
}  // namespace tb::http
