// SPDX-License-Identifier: Apache-2.0
#include "hooks/sender.h"

#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include "base/test_loop.h"

namespace tb::hooks {
namespace {

using tcp = asio::ip::tcp;

// Takes connections, reads a head and says what it was told to; then it closes, or stays silent.
class Peer {
 public:
  explicit Peer(asio::any_io_executor executor)
      : acceptor_(executor, {asio::ip::address_v4::loopback(), 0}),
        tasks_(executor, [](const std::string&, std::exception_ptr) {}) {
    tasks_.spawn("peer", [this] { return serve(); });
  }
  std::string url(const std::string& scheme = "http") const {
    return scheme + "://127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()) + "/x";
  }
  awaitable<void> close() { return tasks_.close(); }

  std::string says;
  bool stays = false;
  std::vector<std::string> heard;

 private:
  awaitable<void> serve() {
    for (;;) {
      tcp::socket socket = co_await acceptor_.async_accept(asio::use_awaitable);
      auto shared = std::make_shared<tcp::socket>(std::move(socket));
      tasks_.spawn("one", [this, shared] { return answer(shared); });
    }
  }
  awaitable<void> answer(std::shared_ptr<tcp::socket> socket) {
    std::string bytes;
    auto into = asio::dynamic_buffer(bytes);
    co_await asio::async_read_until(*socket, into, "body!", asio::use_awaitable);
    heard.push_back(bytes);
    const asio::const_buffer out{says.data(), says.size()};
    co_await asio::async_write(*socket, out, asio::as_tuple(asio::use_awaitable));
    if (!stays) co_return;
    asio::steady_timer timer{acceptor_.get_executor(), std::chrono::hours{1}};
    co_await timer.async_wait(asio::use_awaitable);
  }

  tcp::acceptor acceptor_;
  TaskGroup tasks_;
};

class SenderTest : public testing::Test {
 protected:
  ~SenderTest() override { loop_.run(peer_.close()); }

  static Sender::Settings settings(bool allow, Milliseconds whole = 3s) {
    Sender::Settings settings;
    settings.rules = {allow, {}};
    settings.whole = whole;
    return settings;
  }
  Attempt post(const Sender::Settings& settings, const std::string& url) {
    Sender sender{loop_.executor(), settings};
    std::vector<http::Header> headers{{"webhook-id", "msg_1"}};
    return loop_.run(sender.post(url, std::move(headers), "body!"));
  }

  TestLoop loop_;
  Peer peer_{loop_.executor()};
};

TEST_F(SenderTest, PostsAndReadsTheStatusAndNotTheBody) {
  peer_.says = "HTTP/1.1 201 Created\r\nContent-Length: 1000000000\r\n\r\nx";
  peer_.stays = true;
  const Attempt attempt = post(settings(true), peer_.url());
  EXPECT_TRUE(attempt.delivered());
  EXPECT_EQ(attempt.status, 201);
  EXPECT_EQ(attempt.error, "");
  ASSERT_EQ(peer_.heard.size(), 1u);
  EXPECT_EQ(peer_.heard[0].find("POST /x HTTP/1.1\r\n"), 0u);
  EXPECT_NE(peer_.heard[0].find("Content-Length: 5\r\n"), std::string::npos);
  EXPECT_NE(peer_.heard[0].find("webhook-id: msg_1\r\n"), std::string::npos);
}

TEST_F(SenderTest, SilenceHasAnEnd) {
  peer_.stays = true;
  Attempt attempt = post(settings(true, 50ms), peer_.url());
  EXPECT_EQ(attempt.error, "no answer in time");
  EXPECT_FALSE(attempt.refused);
  // Also before TLS is agreed on, and within a head that never ends.
  attempt = post(settings(true, 50ms), peer_.url("https"));
  EXPECT_EQ(attempt.error, "no answer in time");
  peer_.says = "HTTP/1.1 200 OK\r\n";
  attempt = post(settings(true, 50ms), peer_.url());
  EXPECT_EQ(attempt.error, "no answer in time");
}

TEST_F(SenderTest, NonsenseIsAFailure) {
  for (const std::string& nonsense :
       {std::string{}, std::string{"hello\r\n\r\n"}, std::string{"HTTP/1.1 200 OK\r\n"},
        std::string{"HTTP/1.1 101 Switching Protocols\r\n\r\n"},
        "HTTP/1.1 200 OK\r\nX: " + std::string(40000, 'x') + "\r\n\r\n",
        std::string{"HTTP/1.1 307 x\r\n\r\n"}}) {
    peer_.says = nonsense;
    const Attempt attempt = post(settings(true), peer_.url());
    EXPECT_FALSE(attempt.delivered()) << nonsense.substr(0, 30);
    EXPECT_NE(attempt.error, "") << nonsense.substr(0, 30);
    EXPECT_FALSE(attempt.refused);
  }
}

TEST_F(SenderTest, AnswersThatAreNoneYetHaveAnEnd) {
  const std::string none = "HTTP/1.1 100 Continue\r\n\r\n";
  peer_.says = none + none + "HTTP/1.1 200 OK\r\n\r\n";
  EXPECT_TRUE(post(settings(true), peer_.url()).delivered());
  peer_.says.clear();
  for (int i = 0; i < 2000; ++i) peer_.says += none;
  peer_.says += "HTTP/1.1 200 OK\r\n\r\n";
  const Attempt attempt = post(settings(true), peer_.url());
  EXPECT_EQ(attempt.status, 0);
  EXPECT_EQ(attempt.error, "the head of the answer is too large");
}

TEST_F(SenderTest, RetryAfterCountsOnlyWhereItMeansWaiting) {
  peer_.says = "HTTP/1.1 503 x\r\nRetry-After: 7\r\n\r\n";
  EXPECT_EQ(post(settings(true), peer_.url()).retry_after, std::chrono::seconds{7});
  peer_.says = "HTTP/1.1 404 x\r\nRetry-After: 7\r\n\r\n";
  EXPECT_FALSE(post(settings(true), peer_.url()).retry_after);
}

TEST_F(SenderTest, WhereNothingIsSentNothingIsConnectedTo) {
  peer_.says = "HTTP/1.1 200 OK\r\n\r\n";
  const Attempt attempt = post(settings(false), peer_.url());
  EXPECT_TRUE(attempt.refused);
  EXPECT_NE(attempt.error.find("not allowed"), std::string::npos) << attempt.error;
  EXPECT_TRUE(peer_.heard.empty());
  EXPECT_TRUE(post(settings(true), "http://user@127.0.0.1/").refused);
}

TEST_F(SenderTest, RedirectsEndSomewhere) {
  peer_.says = "HTTP/1.1 308 x\r\nLocation: /again\r\n\r\n";
  const Attempt attempt = post(settings(true), peer_.url());
  EXPECT_EQ(attempt.error, "too many redirects");
  EXPECT_EQ(peer_.heard.size(), 4u);
  peer_.says = "HTTP/1.1 302 x\r\nLocation: /again\r\n\r\n";
  EXPECT_EQ(post(settings(true), peer_.url()).status, 302);
  peer_.says = "HTTP/1.1 307 x\r\nLocation: ftp://x/\r\n\r\n";
  EXPECT_TRUE(post(settings(true), peer_.url()).refused);
}

TEST_F(SenderTest, NobodyThereIsAFailure) {
  tcp::acceptor taken{loop_.executor(), {asio::ip::address_v4::loopback(), 0}};
  const std::string port = std::to_string(taken.local_endpoint().port());
  taken.close();
  const Attempt attempt = post(settings(true), "http://127.0.0.1:" + port + "/");
  EXPECT_NE(attempt.error.find("no connection"), std::string::npos) << attempt.error;
  EXPECT_FALSE(attempt.refused);
}

}  // namespace
}  // namespace tb::hooks
