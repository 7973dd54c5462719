// SPDX-License-Identifier: Apache-2.0
#include "net/client.h"

#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include "base/test_loop.h"

namespace tb::net {
namespace {

using tcp = asio::ip::tcp;

// Takes one connection; then it reads nothing, or answers and drips.
class Peer {
 public:
  explicit Peer(asio::any_io_executor executor)
      : acceptor_(executor, {asio::ip::address_v4::loopback(), 0}),
        tasks_(executor, [](const std::string&, std::exception_ptr) {}) {
    tasks_.spawn("peer", [this] { return serve(); });
  }
  Url url() const {
    const std::string port = std::to_string(acceptor_.local_endpoint().port());
    return parse_url("http://127.0.0.1:" + port + "/x");
  }
  awaitable<void> close() { return tasks_.close(); }
  bool drips = false;

 private:
  awaitable<void> serve() {
    tcp::socket socket = co_await acceptor_.async_accept(asio::use_awaitable);
    asio::steady_timer timer{acceptor_.get_executor(), std::chrono::hours{1}};
    if (!drips) co_await timer.async_wait(asio::use_awaitable);
    std::string text;
    auto into = asio::dynamic_buffer(text);
    co_await asio::async_read_until(socket, into, "\r\n\r\n", asio::use_awaitable);
    std::string out = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
    for (;;) {
      co_await asio::async_write(socket, asio::buffer(out), asio::use_awaitable);
      out = "x";
      timer.expires_after(5ms);
      co_await timer.async_wait(asio::use_awaitable);
    }
  }

  tcp::acceptor acceptor_;
  TaskGroup tasks_;
};

class ClientTest : public testing::Test {
 protected:
  ~ClientTest() override { loop_.run(peer_.close()); }
  awaitable<std::shared_ptr<Answer>> send(Ask ask) {
    std::unique_ptr<Answer> answer = co_await client_.send(std::move(ask));
    co_return std::shared_ptr<Answer>{std::move(answer)};
  }
  Ask ask() {
    Ask ask;
    ask.method = "POST";
    ask.url = peer_.url();
    ask.write = ask.answer = 50ms;
    return ask;
  }

  TestLoop loop_;
  Peer peer_{loop_.executor()};
  Client client_{loop_.executor(), {}};
};

TEST_F(ClientTest, ARequestThatNobodyReadsHasAnEnd) {
  Ask large = ask();
  large.body = std::string(32 << 20, 'x');  // more than any socket takes unread
  EXPECT_THROW(loop_.run(send(std::move(large))), Error);
  Ask endless = ask();
  endless.length = UINT64_MAX;
  endless.next = []() -> awaitable<std::string> { co_return std::string(1 << 20, 'x'); };
  EXPECT_THROW(loop_.run(send(std::move(endless))), Error);
}

TEST_F(ClientTest, AnAnswerThatDripsHasAnEnd) {
  peer_.drips = true;
  const std::shared_ptr<Answer> answer = loop_.run(send(ask()));
  EXPECT_EQ(answer->status(), 200);
  try {
    loop_.run(answer->read_all(1_MiB, 100ms));
    FAIL() << "it ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable) << error.what();
  }
}

}  // namespace
}  // namespace tb::net
