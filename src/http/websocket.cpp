// SPDX-License-Identifier: Apache-2.0
#include "http/websocket.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "http/exchange.h"

namespace tb::http {
namespace {

constexpr std::size_t kInput = 64 << 10;
constexpr std::size_t kMaxReason = 123;  // 125 of a control frame, less the code.

using Kind = WebSocketParser::Kind;

WebSocketParser::Sender peer_of(WebSocket::Role role) {
  return role == WebSocket::Role::server ? WebSocketParser::Sender::client
                                         : WebSocketParser::Sender::server;
}

WebSocketParser::Limits parser_limits(const WebSocketOptions& options) {
  WebSocketParser::Limits limits;
  limits.message = static_cast<std::size_t>(options.message.count);
  return limits;
}

// As much of it as fits, and no half character.
std::string_view cut_reason(std::string_view reason) {
  if (reason.size() > kMaxReason) reason = reason.substr(0, kMaxReason);
  while (!reason.empty() && !is_utf8(reason)) reason.remove_suffix(1);
  return reason;
}

// Unpredictable (RFC 6455, 10.3), so that no page can choose what proxies see.
Mask random_mask() {
  Mask mask{};
  check(::getrandom(mask.data(), mask.size(), 0), "getrandom");
  return mask;
}

}  // namespace

awaitable<void> WebSocketChannel::send_file(FileBytes) {
  throw Error{Code::internal, "a file to a server"};
  co_return;
}

// The turn to write: held for one frame and the control frames that came due meanwhile.
class WebSocket::Turn {
 public:
  explicit Turn(WebSocket& socket) : socket_(socket) { socket_.busy_ = true; }
  ~Turn() {
    socket_.busy_ = false;
    if (!done_) socket_.torn_ = true;
    socket_.free_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  void done() { done_ = true; }

 private:
  WebSocket& socket_;
  bool done_ = false;
};

WebSocket::WebSocket(boost::asio::any_io_executor executor, WebSocketChannel& channel, Role role,
                     const WebSocketOptions& options)
    : channel_(channel),
      role_(role),
      options_(options),
      parser_(peer_of(role), parser_limits(options)),
      free_(executor),
      heard_(Clock::now()) {}

void WebSocket::set_closed(int code, std::string reason, bool by_peer) {
  if (!closed_) closed_ = Closed{code, std::move(reason), by_peer};
}

awaitable<std::optional<WebSocket::Message>> WebSocket::receive() {
  ReadBuffer& input = channel_.input();
  WebSocketParser::Event event;
  while (!ended_) {
    if (torn_) throw Disconnected{};
    const std::size_t used = parser_.parse(input.view(), event);
    input.consume(used);
    if (event.kind == Kind::none) {
      co_await wait_for_input();
    } else if (event.kind == Kind::text || event.kind == Kind::binary) {
      Message message{event.kind == Kind::text, std::move(event.data)};
      co_return message;
    } else {
      co_await handle(std::move(event));
    }
  }
  co_return std::nullopt;
}

// All that is no message.
awaitable<void> WebSocket::handle(WebSocketParser::Event event) {
  if (event.kind == Kind::close) {
    ended_ = true;
    set_closed(event.code, event.data, true);
    co_await close(event.code == kCloseNoCode ? 0 : event.code, {});
  } else if (event.kind == Kind::violation) {
    ended_ = true;
    co_await close(event.code, event.data);
  } else if (too_many_controls()) {
    ended_ = true;
    co_await close(kClosePolicy, "too many pings");
  } else if (event.kind == Kind::ping) {
    co_await answer_ping(std::move(event.data));
  }
}

// Pings cost us more than the peer, for a frame is answered by a system call.
bool WebSocket::too_many_controls() {
  const auto now = Clock::now();
  if (now - controls_since_ >= 1s) {
    controls_since_ = now;
    controls_ = 0;
  }
  return ++controls_ > options_.controls;
}

// Any byte is a sign of life; when none comes, a ping asks for one.
awaitable<void> WebSocket::wait_for_input() {
  if (channel_.draining() && !close_sent_) {
    ended_ = true;
    const std::string_view reason = "the server is going away";
    co_await close(kCloseGoingAway, reason);
    co_return;
  }
  const auto deadline = close_sent_ ? closing_since_ + options_.close
                        : pinged_   ? *pinged_ + options_.pong
                                    : heard_ + options_.ping;
  const std::size_t got = co_await channel_.receive(kInput, deadline);
  if (got != 0) {
    heard_ = Clock::now();
    pinged_.reset();
  } else if (close_sent_) {
    ended_ = true;
  } else if (!channel_.expired()) {
    throw Disconnected{};
  } else if (Clock::now() >= deadline) {
    if (pinged_) throw Disconnected{};
    channel_.input().shrink();
    co_await send_ping();
  }
}

awaitable<void> WebSocket::answer_ping(std::string payload) {
  if (close_sent_) co_return;
  if (busy_) {
    pong_due_ = std::move(payload);
  } else {
    co_await send(Opcode::pong, payload);
  }
}

// While a message is on its way, the sender sees whether the peer is there.
awaitable<void> WebSocket::send_ping() {
  const auto now = Clock::now();
  if (busy_) {
    heard_ = now;
  } else {
    pinged_ = now;
    co_await send(Opcode::ping, {});
  }
}

awaitable<void> WebSocket::send_text(std::string_view text) { return send(Opcode::text, text); }

awaitable<void> WebSocket::send_binary(std::string_view bytes) {
  return send(Opcode::binary, bytes);
}

awaitable<void> WebSocket::send_binary_file(FileBytes bytes) {
  TB_ASSERT(role_ == Role::server);
  while (busy_) co_await free_.wait();
  if (close_sent_ || torn_) throw Disconnected{};
  Turn turn{*this};
  const FrameHead head{Opcode::binary, bytes.size, std::nullopt};
  bytes.head = head.view();
  bytes.tail = {};
  co_await channel_.send_file(bytes);
  co_await send_due_pongs();
  turn.done();
}

awaitable<void> WebSocket::close(int code, std::string_view reason) {
  std::string payload;
  if (code != 0) {
    payload += static_cast<char>(code >> 8);
    payload += static_cast<char>(code);
    payload += cut_reason(reason);
  }
  set_closed(code, std::string{reason}, false);
  while (busy_) co_await free_.wait();
  if (close_sent_ || torn_) co_return;
  co_await send(Opcode::close, payload);
}

awaitable<void> WebSocket::send(Opcode opcode, std::string_view payload) {
  while (busy_) co_await free_.wait();
  if (close_sent_ || torn_) throw Disconnected{};
  Turn turn{*this};
  if (opcode == Opcode::close) {
    close_sent_ = true;
    closing_since_ = Clock::now();
  }
  co_await write_frame(opcode, payload);
  co_await send_due_pongs();
  turn.done();
}

awaitable<void> WebSocket::send_due_pongs() {
  while (pong_due_ && !close_sent_) {
    const std::string pong = *std::exchange(pong_due_, std::nullopt);
    co_await write_frame(Opcode::pong, pong);
  }
}

awaitable<void> WebSocket::write_frame(Opcode opcode, std::string_view payload) {
  std::string masked;
  std::optional<Mask> mask;
  if (role_ == Role::client) {
    mask = random_mask();
    masked = payload;
    apply_mask(masked.data(), masked.size(), *mask);
    payload = masked;
  }
  const FrameHead head{opcode, payload.size(), mask};
  Pieces pieces{head.view(), payload};
  if (!channel_.push(pieces)) co_await channel_.finish_sending(pieces);
}

}  // namespace tb::http
