// SPDX-License-Identifier: Apache-2.0
// The life of a connection and its input; its output is in connection_output.cpp.
#include "http/connection.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include "base/error.h"

namespace tb::http {
namespace {

namespace asio = boost::asio;

constexpr auto kNever = Clock::time_point::max();
constexpr std::size_t kBodyBuffer = 64 << 10;
// So much of a body that the handler did not want is read and thrown away to keep a connection.
constexpr std::uint64_t kMaxSkipped = 64 << 10;
// What must arrive during one time of lingering for another one.
constexpr std::size_t kLingerProgress = 64 << 10;
// Room in the read buffer beyond the largest head, so that the head limit is met first.
constexpr std::size_t kHeadSlack = 4 << 10;

}  // namespace

Connection::Connection(asio::any_io_executor executor, int fd, std::string peer,
                       ServerState& server, std::unique_ptr<SecureLayer> layer)
    : socket_(executor, fd),
      server_(server),
      layer_(std::move(layer)),
      parser_(server.limits.head) {
  parser_.set_peer(std::move(peer));
}

awaitable<void> Connection::serve() {
  try {
    co_await serve_all();
    if (broken_ && !abort_) co_await linger();
    close_layer();
  } catch (const Disconnected&) {
  } catch (...) {
    // A cancelled wait; anything else is a fault of ours.
    if (!server_.closing) tell_failure(std::current_exception());
  }
  if (abort_) {
    // What the peer does not take would stay in the kernel for minutes after a plain close.
    const struct linger reset{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }
  boost::system::error_code ignored;
  socket_.close(ignored);
}

awaitable<void> Connection::serve_all() {
  if (layer_) {
    // By a name: g++ 12 loses its way in a co_await behind &&.
    const bool open = co_await open_layer();
    if (!open) co_return;
  }
  while (co_await serve_one()) {
  }
}

// One request and its response. False when the connection should end.
awaitable<bool> Connection::serve_one() {
  std::optional<Response> refusal;
  try {
    if (!co_await read_head()) co_return false;
    co_await server_.handler(*this);
    check_answered();
  } catch (const Disconnected&) {
    throw;
  } catch (...) {
    if (server_.closing) throw;
    refusal = refuse(std::current_exception());
  }
  on_peer_closed_ = nullptr;
  if (websocket_) {
    co_await close_websocket(refusal.has_value());
    co_return false;
  }
  if (refusal) {
    if (sent_ != Sent::nothing) {
      // A body that lasts until the close has no other sign of being incomplete.
      abort_ = sent_ == Sent::part && !out_chunked_ && !out_left_;
      co_return false;
    }
    Response response = std::move(*refusal);
    co_await respond(std::move(response));
  }
  if (close_after_) co_return false;
  if (!parser_.body_done()) co_await skip_body();
  co_return true;
}

void Connection::check_answered() const {
  if (sent_ != Sent::all) throw Error{Code::internal, "the handler did not finish its response"};
}

// What the client is told about an exception. Details of an unexpected one are for the log only.
Response Connection::refuse(std::exception_ptr failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const HttpError& error) {
    Response response = error_response(error.status(), error.text());
    response.headers = error.headers();
    if (error.status() == 405 && !response.find("Allow")) {
      response.headers.push_back({"Allow", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"});
    }
    return response;
  } catch (...) {
    tell_failure(failure);
    return error_response(500, "Internal server error");
  }
}

void Connection::tell_failure(std::exception_ptr failure) const {
  if (!server_.on_failure) return;
  std::string where = request().method + ' ' + request().target;
  if (!request().id.empty()) where += " (request " + request().id + ')';
  server_.on_failure(where, failure);
}

void Connection::reset() {
  parser_.reset();
  sent_ = Sent::nothing;
  close_after_ = continue_sent_ = out_chunked_ = out_has_body_ = false;
  out_left_.reset();
  added_headers_.clear();
  transferred_ = buffer_.view().size();
  body_window_ = 0;
  body_waited_ = {};
}

// Reads until a head is complete; false when the peer has no more requests or came too late.
awaitable<bool> Connection::read_head() {
  reset();
  const auto& limits = server_.limits;
  // On a new connection the clock runs from the accept, later from a request's first byte.
  Clock::time_point deadline = first_ ? Clock::now() + limits.header : kNever;
  broken_ = true;  // Until a head is good.
  for (;;) {
    if (!buffer_.empty()) {
      if (const std::size_t used = parser_.parse_head(buffer_.view())) {
        buffer_.consume(used);
        parser_.set_id(server_.ids.choose(request().headers));
        broken_ = first_ = false;
        co_return true;
      }
      if (deadline == kNever) deadline = Clock::now() + limits.header;
    } else {
      buffer_.shrink();
      if (server_.draining) break;
    }
    idle_ = buffer_.empty();
    const auto until = deadline == kNever ? Clock::now() + limits.keep_alive : deadline;
    const std::size_t got = co_await receive(limits.head.total + kHeadSlack, until);
    const bool was_idle = std::exchange(idle_, false);
    if (got != 0) continue;
    if (reading_.expired && !was_idle) throw HttpError{408, "The request came too slowly"};
    break;
  }
  broken_ = false;
  co_return false;
}

// Reads more into the buffer. 0: the end of the input, a failure, or the deadline (`expired`).
awaitable<std::size_t> Connection::receive(std::size_t buffer_limit, Clock::time_point deadline) {
  return fill(buffer_.prepare(buffer_limit), true, deadline);
}

// `room` is in the buffer, or else what it gets is not to be parsed.
awaitable<std::size_t> Connection::fill(std::span<char> room, bool buffered,
                                        Clock::time_point deadline) {
  TB_ASSERT(!room.empty());
  reading_ = {.deadline = deadline};
  std::size_t got = 0;
  if (layer_) {
    got = co_await receive_secure(room);
  } else {
    const asio::mutable_buffer target{room.data(), room.size()};
    const auto [error, read] =
        co_await socket_.async_read_some(target, asio::as_tuple(asio::use_awaitable));
    if (!error) got = read;
  }
  reading_.deadline = kNever;
  if (buffered) buffer_.commit(got);
  transferred_ += got;
  co_return got;
}

std::size_t Connection::take_body(std::span<char> out) {
  try {
    const auto progress = parser_.parse_body(buffer_.view(), out);
    buffer_.consume(progress.consumed);
    return progress.produced;
  } catch (const HttpError&) {
    broken_ = true;
    throw;
  }
}

awaitable<std::size_t> Connection::read_some(std::span<char> out) {
  TB_ASSERT(!out.empty());
  for (;;) {
    if (const std::size_t got = take_body(out); got != 0 || parser_.body_done()) co_return got;
    if (parser_.expects_continue() && !std::exchange(continue_sent_, true)) {
      const Pieces interim{"HTTP/1.1 100 Continue\r\n\r\n"};
      if (sent_ == Sent::nothing) co_await send(interim);
    }
    const std::span<char> direct = room_for_body(out);
    const std::size_t got = co_await receive_body(direct);
    if (direct.empty()) continue;
    parser_.pass_body(got);
    co_return got;
  }
}

// A large body needs no copy: it goes from the kernel to where it is wanted. Empty: it has to be
// parsed, or the buffer fetches more at once.
std::span<char> Connection::room_for_body(std::span<char> out) const {
  const std::uint64_t left = parser_.body_left().value_or(0);
  if (left < kBodyBuffer || out.size() < kBodyBuffer || !buffer_.empty()) return {};
  return out.first(std::min<std::uint64_t>(out.size(), left));
}

// Time spent waiting counts until `body_progress` bytes have come: a trickle is no progress. Time
// that the handler spends between two reads does not count.
awaitable<std::size_t> Connection::receive_body(std::span<char> direct) {
  const auto start = Clock::now();
  const auto deadline = start + (server_.limits.body_idle - body_waited_);
  const bool buffered = direct.empty();
  const std::span<char> room = buffered ? buffer_.prepare(kBodyBuffer) : direct;
  const std::size_t got = co_await fill(room, buffered, deadline);
  if (got == 0) {
    broken_ = true;
    if (reading_.expired) throw HttpError{408, "The request body came too slowly"};
    throw HttpError{400, "The request body was cut short"};
  }
  body_waited_ += Clock::now() - start;
  body_window_ += got;
  if (body_window_ >= server_.limits.body_progress.count) {
    body_window_ = 0;
    body_waited_ = {};
  }
  co_return got;
}

// Throws away what has arrived of the body; false when its framing is bad.
bool Connection::discard_buffered_body() {
  std::array<char, 1024> scratch;
  try {
    while (!parser_.body_done() && take_body(scratch) != 0) {
    }
    return true;
  } catch (const HttpError&) {
    return false;
  }
}

// Whether the next request can be reached cheaply. A client that waits for "100 Continue" may
// send its body or not: that is not to be guessed.
bool Connection::body_can_be_skipped() {
  if (broken_) return false;
  if (parser_.body_done()) return true;
  if (parser_.expects_continue() && !continue_sent_) return false;
  if (!discard_buffered_body()) return false;
  return parser_.body_done() || parser_.body_left().value_or(kMaxSkipped + 1) <= kMaxSkipped;
}

awaitable<void> Connection::skip_body() {
  const auto deadline = Clock::now() + server_.limits.header;
  while (!parser_.body_done()) {
    if (!discard_buffered_body()) throw Disconnected{};
    if (parser_.body_done()) break;
    const std::size_t got = co_await receive(kBodyBuffer, deadline);
    if (got == 0) throw Disconnected{};
  }
}

// Closing with unread input makes the kernel send a reset, which may overtake the response. So
// say that it is over, then read on for a moment until the client has seen it and closes. Clients
// that read no answer before they have sent all, as python-requests, get some more time.
awaitable<void> Connection::linger() {
  close_layer();  // What still comes is thrown away as it is.
  ::shutdown(socket_.native_handle(), SHUT_WR);
  const auto last = Clock::now() + server_.limits.linger_most;
  std::size_t progress = kLingerProgress;
  while (progress >= kLingerProgress && Clock::now() < last) {
    progress = 0;
    const auto deadline = std::min(last, Clock::now() + server_.limits.linger);
    while (Clock::now() < deadline) {
      buffer_.consume(buffer_.view().size());
      const std::size_t got = co_await receive(kBodyBuffer, deadline);
      if (got == 0 && !reading_.expired) co_return;
      progress += got;
    }
    if (server_.draining) co_return;
  }
}

// The socket knows no way to end one of its waits alone.
void Connection::end_wait(Wait& wait) {
  wait.deadline = kNever;
  wait.expired = true;
  (&wait == &reading_ ? writing_ : reading_).disturbed = true;
  boost::system::error_code ignored;
  socket_.cancel(ignored);
}

void Connection::tick(Clock::time_point now) {
  look_at_reader(now);
  for (Wait* wait : {&reading_, &writing_}) {
    if (now >= wait->deadline) end_wait(*wait);
  }
  if (on_peer_closed_) tell_of_peer();
}

void Connection::drain() {
  boost::system::error_code ignored;
  if (idle_) socket_.cancel(ignored);
  if (websocket_ && reading_.deadline != kNever) end_wait(reading_);
}

Connection::Peer Connection::look_at_peer() const {
  auto& socket = const_cast<asio::posix::stream_descriptor&>(socket_);
  pollfd query{.fd = socket.native_handle(), .events = POLLRDHUP, .revents = 0};
  if (::poll(&query, 1, 0) != 1) return Peer::there;
  return query.revents & (POLLERR | POLLHUP) ? Peer::broken : Peer::closed;
}

bool Connection::peer_closed() const { return look_at_peer() != Peer::there; }

void Connection::cut() { ::shutdown(socket_.native_handle(), SHUT_RDWR); }

void Connection::on_peer_closed(std::function<void()> callback) {
  on_peer_closed_ = std::move(callback);
  peer_told_ = Peer::there;
  if (on_peer_closed_) watch_peer();
}

// True if there was news.
bool Connection::tell_of_peer() {
  const Peer now = look_at_peer();
  if (now <= peer_told_) return false;
  peer_told_ = now;
  const auto callback = on_peer_closed_;  // it may be replaced by what it does
  callback();
  return true;
}

// Beside what the handler does: nobody reads while a response is under way.
void Connection::watch_peer() {
  if (std::exchange(peer_watched_, true)) return;
  const auto what = peer_told_ == Peer::there ? asio::posix::descriptor_base::wait_read
                                              : asio::posix::descriptor_base::wait_error;
  socket_.async_wait(what, [this, alive = std::weak_ptr{alive_}](boost::system::error_code error) {
    if (alive.expired()) return;
    peer_watched_ = false;
    if (!on_peer_closed_ || !socket_.is_open()) return;
    if (error == asio::error::operation_aborted) return watch_peer();  // for another wait's sake
    if (error) return;
    // What came may be this request itself. If further ones wait to be read, the tick looks.
    int unread = 0;
    if (!tell_of_peer() &&
        (::ioctl(socket_.native_handle(), FIONREAD, &unread) != 0 || unread > 0)) {
      return;
    }
    if (on_peer_closed_ && peer_told_ != Peer::broken) watch_peer();
  });
}

}  // namespace tb::http
