// SPDX-License-Identifier: Apache-2.0
#include "http/unsent.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "http/test_frames.h"
#include "http/test_server.h"
#include "http/websocket.h"

namespace tb::http {
namespace {

constexpr std::size_t kMiB = 1 << 20;

class UnsentTest : public testing::Test {
 protected:
  UnsentTest() : socket(check(::socket(AF_INET, SOCK_STREAM, 0), "socket")) {
    keep_little_unsent(socket);
  }
  ~UnsentTest() override { ::close(socket); }

  int allowed() const {
    int bytes = 0;
    socklen_t size = sizeof bytes;
    ::getsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, &size);
    return bytes;
  }

  int socket;
};

TEST_F(UnsentTest, MoreForAFastReaderWhileItIs) {
  const int little = allowed();
  {
    Unsent waiting{socket};
    waiting.note(4 * kMiB, 1ms);
    EXPECT_EQ(allowed(), little);
    waiting.note(4 * kMiB, 1ms);
    EXPECT_GT(allowed(), little);
    waiting.note(4 * kMiB, 1s);
    EXPECT_EQ(allowed(), little);
    waiting.note(4 * kMiB, 1ms);
    EXPECT_EQ(allowed(), little) << "it has to show that once more";
    waiting.note(4 * kMiB, 1ms);
    EXPECT_GT(allowed(), little);
  }
  EXPECT_EQ(allowed(), little) << "the next response begins anew";
}

// Answers with `size` bytes of a file.
Handler file_of(std::uint64_t size) {
  return [size](Exchange& exchange) -> awaitable<void> {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::tmpfile(), std::fclose};
    check(::ftruncate(fileno(file.get()), static_cast<off_t>(size)), "ftruncate");
    auto send = [&](int socket, std::uint64_t from,
                    std::uint64_t most) -> awaitable<std::optional<std::size_t>> {
      auto offset = static_cast<off_t>(from);
      const ssize_t sent = ::sendfile(socket, fileno(file.get()), &offset, most);
      co_return static_cast<std::size_t>(std::max<ssize_t>(sent, 0));
    };
    Response head;
    co_await exchange.begin(std::move(head), size);
    co_await exchange.write_by(send, size);
    co_await exchange.end();
  };
}

// What has come of the response after all of this time, however late the reader gets its turn.
std::size_t read_slowly(Wire& wire, std::size_t per_second, std::chrono::milliseconds time) {
  const auto start = std::chrono::steady_clock::now();
  std::size_t got = 0;
  for (auto since = 0ms; since < time;) {
    since = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                                  start);
    char bytes[8 << 10];
    if (got / 1000.0 >= per_second / 1e6 * static_cast<double>(since.count())) {
      std::this_thread::sleep_for(5ms);
    } else if (const ssize_t part = ::recv(wire.fd(), bytes, sizeof bytes, 0); part > 0) {
      got += static_cast<std::size_t>(part);
    } else {
      return got;
    }
  }
  return got;
}

// It has more waiting for it than a slow one takes within `write_stall`.
TEST(HttpDeadlines, AFastReaderThatBecomesSlowIsNotCutOff) {
  ServerLimits limits;
  limits.write_stall = 1s;
  TestServer server{file_of(64 * kMiB), limits};
  Wire wire{server.port()};
  const int room = 64 << 10;
  ::setsockopt(wire.fd(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  wire.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  while (wire.text().size() < 24 * kMiB) ASSERT_TRUE(wire.read());
  EXPECT_GE(read_slowly(wire, 300 << 10, 5s), std::size_t{300 << 10} * 4);
  EXPECT_GT(wire.read_to_end().size(), 60 * kMiB);
}

// The server's end of a connection, which is in this process, too.
int other_end(const Wire& wire) {
  sockaddr_in ours{};
  socklen_t size = sizeof ours;
  ::getsockname(wire.fd(), reinterpret_cast<sockaddr*>(&ours), &size);
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in peer{};
    size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
        peer.sin_port == ours.sin_port) {
      return fd;
    }
  }
  return -1;
}

// A reader that is given more time is heard meanwhile.
TEST(WebSocket, IsReadBesideAWriteThatItsPeerIsSlowToTake) {
  ServerLimits limits;
  limits.write_stall = 1s;
  const std::string data(16 * kMiB, 'x');
  std::promise<std::string> said;
  const Handler handler = [&](Exchange& exchange) -> awaitable<void> {
    const WebSocketOptions options;
    WebSocket* socket = co_await exchange.upgrade(options);
    auto executor = co_await asio::this_coro::executor;
    auto reader = [&, socket]() -> awaitable<void> {
      const auto message = co_await socket->receive();
      said.set_value(message ? message->data : "nothing");
    };
    auto writer = [&, socket]() -> awaitable<void> { co_await socket->send_binary(data); };
    auto both =
        asio::experimental::make_parallel_group(asio::co_spawn(executor, reader, asio::deferred),
                                                asio::co_spawn(executor, writer, asio::deferred));
    co_await both.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  };
  TestServer server{handler, limits};
  Wire wire{server.port()};
  const int room = 64 << 10;
  ::setsockopt(wire.fd(), SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
  wire.send(
      "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  ASSERT_TRUE(wire.read_until("\r\n\r\n").starts_with("HTTP/1.1 101"));
  // So much waits that it is long until the socket is writable, however steadily it is read.
  const int much = 4 * kMiB;
  ASSERT_EQ(::setsockopt(other_end(wire), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &much, sizeof much), 0);
  EXPECT_GE(read_slowly(wire, 300 << 10, 3s), std::size_t{300 << 10} * 2);
  wire.send(masked(Opcode::text, "here"));
  auto heard = said.get_future();
  ASSERT_EQ(heard.wait_for(5s), std::future_status::ready);
  EXPECT_EQ(heard.get(), "here");
}

}  // namespace
}  // namespace tb::http
