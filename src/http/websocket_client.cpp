// SPDX-License-Identifier: Apache-2.0
#include "http/websocket_client.h"

#include <sys/random.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>

#include "base/async.h"
#include "base/error.h"
#include "base/sha256.h"
#include "http/client_link.h"
#include "http/exchange.h"
#include "http/serialize.h"
#include "http/websocket_handshake.h"

namespace tb::http {
namespace {

// The server takes no byte for so long: it is gone.
constexpr auto kWriteStall = 30s;

std::string random_key() {
  char bytes[16];
  check(::getrandom(bytes, sizeof bytes, 0), "getrandom");
  return base64({bytes, sizeof bytes});
}

std::string join(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text.append(text.empty() ? "" : ", ").append(value);
  return text;
}

std::vector<Header> ask(const WebSocketOptions& options, const std::string& key) {
  std::vector<Header> headers = options.headers;
  headers.push_back({"Upgrade", "websocket"});
  headers.push_back({"Connection", "Upgrade"});
  headers.push_back({"Sec-WebSocket-Version", "13"});
  headers.push_back({"Sec-WebSocket-Key", key});
  if (!options.protocols.empty()) {
    headers.push_back({"Sec-WebSocket-Protocol", join(options.protocols)});
  }
  return headers;
}

// What RFC 6455, 4.1 wants to see in a 101.
void check_accepted(const Response& response, const WebSocketOptions& options,
                    const std::string& key) {
  const std::string* upgrade = response.find("Upgrade");
  const std::string* accept = response.find("Sec-WebSocket-Accept");
  const std::string* protocol = response.find("Sec-WebSocket-Protocol");
  const auto& offered = options.protocols;
  if (!upgrade || !equal_ignoring_case(*upgrade, "websocket") || !accept ||
      *accept != websocket_accept(key) || response.find("Sec-WebSocket-Extensions") ||
      (protocol && std::find(offered.begin(), offered.end(), *protocol) == offered.end())) {
    throw Error{Code::unavailable, "the server answers another question than was asked"};
  }
}

}  // namespace

class WebSocketClient::Impl final : private WebSocketChannel {
 public:
  Impl(asio::any_io_executor executor, Endpoint endpoint, WebSocketOptions options,
       ClientLimits limits)
      : executor_(executor),
        endpoint_(std::move(endpoint)),
        options_(std::move(options)),
        limits_(limits),
        link_(executor) {}

  awaitable<Response> connect(std::string target) {
    const std::string where = "WebSocket " + target + " at " + endpoint_.text() + ": ";
    const std::string key = random_key();
    const std::string message =
        serialize_request("GET", target, endpoint_.host_header(), ask(options_, key), {});
    auto task = exchange(message);
    std::optional<Response> response;
    try {
      response = co_await within(limits_.time, std::move(task));
      if (response && response->status == 101) check_accepted(*response, options_, key);
    } catch (const Error& error) {
      throw Error{error.code(), where + error.what()};
    }
    if (!response) throw Error{Code::unavailable, where + "no response in time"};
    if (response->status == 101) start();
    co_return std::move(*response);
  }

  WebSocket& socket() {
    TB_ASSERT(socket_);
    return *socket_;
  }

 private:
  awaitable<Response> exchange(const std::string& message) {
    TB_ASSERT(!socket_);
    const ResponseParser::Limits limits{
        .head = limits_.head, .body = limits_.body, .upgrade = true};
    ResponseParser parser{limits, false};
    co_await link_.connect(endpoint_);
    try {
      co_await link_.exchange(message, parser);
    } catch (const LinkClosed&) {
      throw Error{Code::unavailable, "the connection ended before a response"};
    }
    co_return std::move(parser.response());
  }

  void start() {
    WebSocketChannel& channel = *this;
    socket_ = std::make_unique<WebSocket>(executor_, channel, WebSocket::Role::client, options_);
  }

  ReadBuffer& input() override { return link_.buffer(); }
  bool expired() const override { return expired_; }
  bool draining() const override { return false; }
  bool push(Pieces& pieces) override { return push_pieces(link_.socket().native_handle(), pieces); }

  awaitable<std::size_t> receive(std::size_t limit, Clock::time_point deadline) override {
    const std::span<char> room = input().prepare(limit);
    TB_ASSERT(!room.empty());
    const asio::mutable_buffer target{room.data(), room.size()};
    asio::steady_timer timer{executor_, deadline};
    auto race = asio::experimental::make_parallel_group(
        link_.socket().async_read_some(target, asio::deferred), timer.async_wait(asio::deferred));
    const auto [order, error, got, timer_error] =
        co_await race.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
    expired_ = order[0] == 1 && error && !timer_error;
    if (error) co_return 0;
    input().commit(got);
    co_return got;
  }

  awaitable<void> finish_sending(Pieces pieces) override {
    do {
      asio::steady_timer timer{executor_, kWriteStall};
      auto race = asio::experimental::make_parallel_group(
          link_.socket().async_wait(asio::posix::descriptor_base::wait_write, asio::deferred),
          timer.async_wait(asio::deferred));
      const auto [order, error, timer_error] =
          co_await race.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
      if (error) throw Disconnected{};
    } while (!push(pieces));
  }

  asio::any_io_executor executor_;
  Endpoint endpoint_;
  WebSocketOptions options_;
  ClientLimits limits_;
  Link link_;
  bool expired_ = false;
  std::unique_ptr<WebSocket> socket_;
};

WebSocketClient::WebSocketClient(asio::any_io_executor executor, Endpoint endpoint,
                                 WebSocketOptions options, ClientLimits limits)
    : impl_(std::make_unique<Impl>(executor, std::move(endpoint), std::move(options), limits)) {}

WebSocketClient::~WebSocketClient() = default;

awaitable<Response> WebSocketClient::connect(std::string target) {
  return impl_->connect(std::move(target));
}

WebSocket& WebSocketClient::socket() { return impl_->socket(); }

}  // namespace tb::http
