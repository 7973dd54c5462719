// SPDX-License-Identifier: Apache-2.0
#include "http/unsent.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "http/test_server.h"

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

}  // namespace
}  // namespace tb::http
