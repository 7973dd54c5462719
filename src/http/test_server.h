// SPDX-License-Identifier: Apache-2.0
// For tests: a server on an ephemeral loopback port with a thread of its own, and a raw client
// that sends bytes as they are.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <string>
#include <string_view>
#include <thread>

#include "base/async.h"
#include "base/error.h"
#include "http/address.h"
#include "http/listener.h"
#include "http/server.h"

namespace tb::http {

class TestServer {
 public:
  TestServer(Handler handler, ServerLimits limits = {}, OnFailure on_failure = {},
             Secure secure = {})
      : tasks_(io_.get_executor(), [](const std::string&, std::exception_ptr) {}),
        server_(io_.get_executor(), limits, std::move(handler), std::move(on_failure)) {
    const int fd = bind_listener("127.0.0.1", 0);
    port_ = port_of(fd);
    server_.listen(fd, std::move(secure));
    thread_ = std::thread{[this] { io_.run(); }};
  }

  ~TestServer() { stop(Milliseconds{0}); }

  // Closes the server and waits for its end.
  void stop(Milliseconds drain) {
    if (!thread_.joinable()) return;
    start_close(drain);
    thread_.join();
  }

  // Begins to close it.
  void start_close(Milliseconds drain) {
    asio::post(io_, [this, drain] {
      tasks_.spawn("close", [this, drain]() -> awaitable<void> { co_await server_.close(drain); });
    });
  }

  // Does it in the server's own thread.
  template <class Act>
  void run(Act act) {
    std::promise<void> done;
    asio::post(io_, [&] {
      act();
      done.set_value();
    });
    done.get_future().wait();
  }

  std::uint16_t port() const { return port_; }

 private:
  asio::io_context io_{1};
  TaskGroup tasks_;
  Server server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

// Blocks, but for no longer than five seconds: a test that would hang fails instead.
class Wire {
 public:
  explicit Wire(std::uint16_t port) : fd_(check(::socket(AF_INET, SOCK_STREAM, 0), "socket")) {
    const auto address = parse_tcp_address("127.0.0.1", port);
    receive_timeout(5s);
    check(::connect(fd_, address->raw(), address->size), "connect");
  }
  ~Wire() { close(); }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void receive_timeout(Milliseconds time) {
    const timeval limit{time.count() / 1000, time.count() % 1000 * 1000};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  // False when the server does not take it all.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  int fd() const { return fd_; }
  void half_close() { ::shutdown(fd_, SHUT_WR); }

  // Reads once: false at the end or when the time is over; the rest is in text().
  bool read() {
    char bytes[64 << 10];
    const ssize_t got = ::recv(fd_, bytes, sizeof bytes, 0);
    ended_ = got == 0 || (got < 0 && errno != EAGAIN);
    if (got > 0) text_.append(bytes, static_cast<std::size_t>(got));
    return got > 0;
  }
  const std::string& read_to_end() {
    while (read()) {
    }
    return text_;
  }
  // Reads until `mark` has come, then takes all up to and with it.
  std::string read_until(std::string_view mark) {
    std::size_t found;
    while ((found = text_.find(mark)) == text_.npos && read()) {
    }
    const std::size_t end = found == text_.npos ? text_.size() : found + mark.size();
    std::string taken = text_.substr(0, end);
    text_.erase(0, end);
    return taken;
  }
  const std::string& text() const { return text_; }
  void forget() { text_.clear(); }
  // The server closed the connection.
  bool ended() const { return ended_; }

 private:
  int fd_;
  bool ended_ = false;
  std::string text_;
};

// The statuses of the responses in `text`, in order: "200 400".
inline std::string statuses(std::string_view text) {
  std::string found;
  for (std::size_t at = 0; (at = text.find("HTTP/1.1 ", at)) != text.npos; at += 9) {
    if (text.substr(at + 9, 1) < "1" || text.substr(at + 9, 1) > "9") continue;
    if (!found.empty()) found += ' ';
    found += text.substr(at + 9, 3);
  }
  return found;
}

// Answers "METHOD path body".
inline awaitable<void> echo(Exchange& exchange) {
  std::string body = co_await exchange.read_body(Bytes{1 << 20});
  Response response;
  response.content_type = "text/plain";
  response.body = exchange.request().method + ' ' + exchange.request().path + ' ' + body;
  co_await exchange.respond(std::move(response));
}

}  // namespace tb::http
