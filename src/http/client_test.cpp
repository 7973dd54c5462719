// SPDX-License-Identifier: Apache-2.0
// The client against the server, and both against a port that is not theirs.
#include "http/client.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <functional>

#include "http/response_parser.h"
#include "http/test_server.h"

namespace tb::http {
namespace {

// Runs a coroutine to its end on this thread; what it throws is thrown on.
void run(asio::io_context& io, std::function<awaitable<void>()> task) {
  std::exception_ptr failure;
  {
    TaskGroup tasks{io.get_executor(),
                    [&](const std::string&, std::exception_ptr thrown) { failure = thrown; }};
    tasks.spawn("test", std::move(task));
    io.restart();
    io.run();
  }
  if (failure) std::rethrow_exception(failure);
}

// What a request to `endpoint` throws.
Code failure_of(Endpoint endpoint, ClientLimits limits = {}) {
  asio::io_context io{1};
  Client client{io.get_executor(), std::move(endpoint), limits};
  try {
    run(io, [&]() -> awaitable<void> { co_await client.get("/"); });
  } catch (const Error& error) {
    return error.code();
  }
  throw std::runtime_error{"nothing was thrown"};
}

TEST(HttpClient, SendsAndReceives) {
  TestServer server{echo};
  asio::io_context io{1};
  Client client{io.get_executor(), Endpoint::tcp("127.0.0.1", server.port())};
  run(io, [&]() -> awaitable<void> {
    for (const std::size_t size : {0u, 5u, 200000u}) {
      std::vector<Header> headers;
      headers.push_back({"X-A", "b"});
      std::string body(size, 'y');
      Response response =
          co_await client.request("POST", "/p", std::move(headers), std::move(body));
      EXPECT_EQ(response.status, 200);
      EXPECT_EQ(response.reason, "OK");
      EXPECT_EQ(response.content_type, "text/plain");
      EXPECT_EQ(response.body, "POST /p " + std::string(size, 'y'));
      EXPECT_NE(response.find("date"), nullptr);
    }
    std::vector<Header> none;
    Response response = co_await client.request("HEAD", "/h", std::move(none), std::string{});
    EXPECT_EQ(response.body, "");
    EXPECT_EQ(*response.find("content-length"), "8");
  });
}

TEST(HttpClient, KeepsItsConnectionAndMakesANewOneWhenThatWasClosed) {
  std::atomic<int> asked = 0;
  const Handler handler = [&](Exchange& exchange) -> awaitable<void> {
    Response response;
    if (++asked % 3 == 0) response.headers.push_back({"Connection", "close"});
    response.body = std::to_string(asked);
    co_await exchange.respond(std::move(response));
  };
  ServerLimits limits;
  limits.keep_alive = 1ms;  // So the server closes as soon as it likes.
  limits.tick = 1ms;
  TestServer server{handler, limits};
  asio::io_context io{1};
  Client client{io.get_executor(), Endpoint::tcp("localhost", server.port())};
  run(io, [&]() -> awaitable<void> {
    asio::steady_timer pause{io};
    for (int i = 1; i <= 20; ++i) {
      const Response response = co_await client.get("/");
      EXPECT_EQ(response.body, std::to_string(i));
      pause.expires_after(std::chrono::microseconds{i * 200});
      co_await pause.async_wait(asio::use_awaitable);
    }
  });
}

TEST(HttpClient, MakesSeveralRequestsAtOnce) {
  TestServer server{echo};
  asio::io_context io{1};
  Client client{io.get_executor(), Endpoint::tcp("127.0.0.1", server.port())};
  int done = 0;
  TaskGroup tasks{io.get_executor(), [](const std::string&, std::exception_ptr) {}};
  for (int i = 0; i < 20; ++i) {
    tasks.spawn("one", [&, i]() -> awaitable<void> {
      const Response response = co_await client.get("/" + std::to_string(i));
      if (response.body == "GET /" + std::to_string(i) + ' ') ++done;
    });
  }
  io.run();
  EXPECT_EQ(done, 20);
}

TEST(HttpClient, ReadsStreamedResponses) {
  const Handler handler = [](Exchange& exchange) -> awaitable<void> {
    Response head;
    co_await exchange.begin(std::move(head), std::nullopt);
    for (int i = 0; i < 100; ++i) co_await exchange.write("0123456789");
    co_await exchange.end();
  };
  TestServer server{handler};
  asio::io_context io{1};
  Client client{io.get_executor(), Endpoint::tcp("127.0.0.1", server.port())};
  run(io, [&]() -> awaitable<void> {
    const Response response = co_await client.get("/");
    EXPECT_EQ(response.body.size(), 1000u);
  });
}

TEST(HttpClient, LeavesWhenTheBeginningIsThere) {
  const Handler handler = [](Exchange& exchange) -> awaitable<void> {
    Response head;
    const bool chunked = exchange.request().target == "/endless";
    co_await exchange.begin(std::move(head),
                            chunked ? std::nullopt : std::optional<std::uint64_t>{3});
    if (!chunked) co_await exchange.write("abc");
    const std::string piece(1000, 'x');
    while (chunked) co_await exchange.write(piece);  // ends when nobody listens any more
    co_await exchange.end();
  };
  TestServer server{handler};
  asio::io_context io{1};
  Client client{io.get_executor(), Endpoint::tcp("127.0.0.1", server.port())};
  run(io, [&]() -> awaitable<void> {
    const Response endless = co_await client.get_beginning("/endless", Bytes{2500});
    EXPECT_EQ(endless.status, 200);
    EXPECT_GT(endless.body.size(), 2500u);
    EXPECT_LT(endless.body.size(), 1u << 20);
    const Response small = co_await client.get_beginning("/small", Bytes{2500});
    EXPECT_EQ(small.body, "abc");
  });
}

TEST(HttpClient, SpeaksOverAUnixSocket) {
  char directory[] = "/tmp/http-client-test-XXXXXX";
  ASSERT_NE(::mkdtemp(directory), nullptr);
  const std::string path = std::string{directory} + "/socket";
  asio::io_context io{1};
  Server server{io.get_executor(), ServerLimits{}, [](Exchange& exchange) -> awaitable<void> {
                  Response response;
                  response.body = exchange.request().peer;
                  co_await exchange.respond(std::move(response));
                }};
  const int fd = check(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), "socket");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  check(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), "bind");
  check(::listen(fd, 5), "listen");
  server.listen(fd);
  Client client{io.get_executor(), Endpoint::unix_socket(path)};
  run(io, [&]() -> awaitable<void> {
    const Response response = co_await client.get("/");
    EXPECT_EQ(response.body, "unix");
    co_await server.close(0ms);
  });
  ::unlink(path.c_str());
  ::rmdir(directory);
}

TEST(HttpClient, SaysWhatFailed) {
  const int fd = bind_listener("127.0.0.1", 0);
  const std::uint16_t port = port_of(fd);
  ClientLimits soon;
  soon.time = 30ms;
  EXPECT_EQ(failure_of(Endpoint::tcp("127.0.0.1", port), soon), Code::unavailable);  // Silent.
  ::close(fd);
  EXPECT_EQ(failure_of(Endpoint::tcp("127.0.0.1", port)), Code::unavailable);  // Refused.
  EXPECT_EQ(failure_of(Endpoint::tcp("example.org", 80)), Code::invalid);
  EXPECT_EQ(failure_of(Endpoint::unix_socket("/nowhere/at/all")), Code::unavailable);

  const Handler handler = [](Exchange& exchange) -> awaitable<void> {
    Response response;
    response.body = std::string(1000, 'a');
    co_await exchange.respond(std::move(response));
  };
  TestServer server{handler};
  ClientLimits small;
  small.body = Bytes{999};
  EXPECT_EQ(failure_of(Endpoint::tcp("127.0.0.1", server.port()), small), Code::exhausted);
}

TEST(HttpResponseParser, ReadsAllWaysToEndABody) {
  struct Case {
    std::string bytes;
    std::string body;  // "!" when it must fail.
    bool keep_alive;
  };
  const std::string ok = "HTTP/1.1 200 OK\r\n";
  const Case cases[] = {
      {ok + "Content-Length: 2\r\n\r\nhi", "hi", true},
      {ok + "Content-Length: 2\r\nConnection: close\r\n\r\nhi", "hi", false},
      {ok + "\r\nhello", "hello", false},
      {"HTTP/1.0 200 OK\r\n\r\nhello", "hello", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n", "hi", true},
      {"HTTP/1.1 100 Continue\r\n\r\n" + ok + "Content-Length: 2\r\n\r\nhi", "hi", true},
      {"HTTP/1.1 204 No Content\r\n\r\n", "", true},
      {ok + "Content-Length: 3\r\n\r\nhi", "!", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", "!", false},
      {ok + "Transfer-Encoding: chunked\r\n\r\nx\r\nhi\r\n", "!", false},
      {ok + "Transfer-Encoding: gzip\r\n\r\nhi", "!", false},
      {ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nhi", "!", false},
      {"HTTP/1.1 101 Switching Protocols\r\n\r\n", "!", false},
      {"SSH-2.0-OpenSSH\r\n\r\n", "!", false},
  };
  for (const Case& one : cases) {
    for (const std::size_t piece : {std::size_t{1}, one.bytes.size()}) {
      ResponseParser parser{{}, false};
      try {
        std::string waiting;
        for (std::size_t at = 0; at < one.bytes.size(); at += piece) {
          waiting += one.bytes.substr(at, piece);
          waiting.erase(0, parser.parse(waiting));
        }
        if (!parser.done()) parser.finish();
        EXPECT_EQ(parser.response().body, one.body) << one.bytes;
        EXPECT_EQ(parser.keep_alive(), one.keep_alive) << one.bytes;
      } catch (const Error&) {
        EXPECT_EQ(one.body, "!") << one.bytes;
      }
    }
  }
}

// Closes it.
std::string congestion_control_of(int fd) {
  char name[16] = {};
  socklen_t size = sizeof name;
  EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size), 0);
  ::close(fd);
  return name;
}

TEST(HttpListener, PacesNothingWithinTheMachine) {
  for (const char* host : {"127.0.0.1", "localhost", "127.1.2.3", "::1", "::ffff:127.0.0.1"}) {
    EXPECT_EQ(congestion_control_of(bind_listener(host, 0)), "reno") << host;
  }
  const std::string usual = congestion_control_of(::socket(AF_INET, SOCK_STREAM, 0));
  for (const char* host : {"0.0.0.0", "::"}) {
    EXPECT_EQ(congestion_control_of(bind_listener(host, 0)), usual) << host;
  }
}

TEST(HttpListener, SaysWhichSettingToChange) {
  const int fd = bind_listener("localhost", 0);
  const std::uint16_t port = port_of(fd);
  try {
    bind_listener("127.0.0.1", port);
    ADD_FAILURE() << "the port was free";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "port " + std::to_string(port) + " is in use: set PORT to another one");
  }
  ::close(fd);
  EXPECT_THROW(bind_listener("not-an-address", 0), Error);
  EXPECT_THROW(bind_listener("192.0.2.1", 0), Error);
}

}  // namespace
}  // namespace tb::http
