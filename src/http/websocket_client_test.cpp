// SPDX-License-Identifier: Apache-2.0
// Both ends of a WebSocket are ours.
#include "http/websocket_client.h"

#include <gtest/gtest.h>

#include "base/test_loop.h"
#include "http/test_server.h"

namespace tb::http {
namespace {

awaitable<void> echo_websocket(Exchange& exchange) {
  WebSocketOptions options;
  options.protocols = std::vector<std::string>{"two"};
  WebSocket* socket = co_await exchange.upgrade(options);
  while (auto message = co_await socket->receive()) {
    if (message->text) {
      co_await socket->send_text(message->data);
    } else {
      co_await socket->send_binary(message->data);
    }
  }
}

TEST(WebSocketClient, TalksToOurServer) {
  TestServer server{echo_websocket};
  TestLoop loop;
  WebSocketOptions options;
  options.protocols = {"one", "two"};
  WebSocketClient client{loop.executor(), Endpoint::tcp("127.0.0.1", server.port()), options};
  const Response response = loop.run(client.connect("/ws"));
  ASSERT_EQ(response.status, 101);
  EXPECT_EQ(*response.find("Sec-WebSocket-Protocol"), "two");
  WebSocket& socket = client.socket();
  for (const std::size_t size : {0u, 5u, 126u, 70000u, 1u << 20}) {
    const std::string data(size, 'd');
    loop.run(socket.send_binary(data));
    const auto binary = loop.run(socket.receive());
    EXPECT_TRUE(binary && !binary->text && binary->data == data) << size;
    loop.run(socket.send_text(data));
    const auto text = loop.run(socket.receive());
    EXPECT_TRUE(text && text->text && text->data == data) << size;
  }
  loop.run(socket.close(4001, "done"));
  EXPECT_FALSE(loop.run(socket.receive()));
  EXPECT_EQ(socket.closed()->code, 4001);
}

TEST(WebSocketClient, ToldWhyItWasClosed) {
  const Handler closes = [](Exchange& exchange) -> awaitable<void> {
    const WebSocketOptions options;
    WebSocket* socket = co_await exchange.upgrade(options);
    const std::string_view reason = "too slow";
    co_await socket->close(kClosePolicy, reason);
  };
  TestServer server{closes};
  TestLoop loop;
  WebSocketClient client{loop.executor(), Endpoint::tcp("127.0.0.1", server.port())};
  ASSERT_EQ(loop.run(client.connect("/")).status, 101);
  EXPECT_FALSE(loop.run(client.socket().receive()));
  EXPECT_EQ(client.socket().closed()->code, kClosePolicy);
  EXPECT_EQ(client.socket().closed()->reason, "too slow");
  EXPECT_TRUE(client.socket().closed()->by_peer);
}

TEST(WebSocketClient, ReturnsARefusal) {
  TestServer server{echo};
  TestLoop loop;
  WebSocketClient client{loop.executor(), Endpoint::tcp("127.0.0.1", server.port())};
  const Response response = loop.run(client.connect("/x"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "GET /x ");
}

TEST(WebSocketClient, NoticesAServerThatVanishes) {
  const Handler deaf = [](Exchange& exchange) -> awaitable<void> {
    const WebSocketOptions options;
    co_await exchange.upgrade(options);
    asio::steady_timer never{co_await asio::this_coro::executor, 1h};
    co_await never.async_wait(asio::use_awaitable);
  };
  TestServer server{deaf};
  TestLoop loop;
  WebSocketOptions options;
  options.ping = options.pong = 5ms;
  WebSocketClient client{loop.executor(), Endpoint::tcp("127.0.0.1", server.port()), options};
  ASSERT_EQ(loop.run(client.connect("/")).status, 101);
  EXPECT_THROW(loop.run(client.socket().receive()), Disconnected);
}

}  // namespace
}  // namespace tb::http
