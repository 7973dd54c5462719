// SPDX-License-Identifier: Apache-2.0
// A connection over a layer that encrypts: its handshake, its input, its end.
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "http/connection.h"

namespace tb::http {
namespace {

namespace asio = boost::asio;
using Step = SecureLayer::Step;

constexpr auto kNever = Clock::time_point::max();

}  // namespace

// False when the wait was ended: its deadline, or the server's end.
awaitable<bool> Connection::wait_for(SecureLayer::Step step) {
  const auto what = step == Step::wait_writable ? asio::posix::descriptor_base::wait_write
                                                : asio::posix::descriptor_base::wait_read;
  const auto [error] = co_await socket_.async_wait(what, asio::as_tuple(asio::use_awaitable));
  co_return !error;
}

// Has a time limit of its own as a whole, however many bytes trickle. False: there is no request.
awaitable<bool> Connection::open_layer() {
  reading_ = {.deadline = Clock::now() + server_.limits.handshake};
  Step step = layer_->handshake();
  while (step == Step::wait_readable || step == Step::wait_writable) {
    idle_ = true;
    const bool ready = co_await wait_for(step);
    idle_ = false;
    if (!ready || server_.draining) co_return false;
    step = layer_->handshake();
  }
  reading_.deadline = kNever;
  broken_ = step == Step::ended;  // The peer should still see why.
  if (step == Step::plain) co_await answer_plainly();
  if (step != Step::done) co_return false;
  parser_.set_peer_name(layer_->peer_name());
  co_return true;
}

// A client that took the port for one of plain HTTP learns what it is; more it must not learn.
awaitable<void> Connection::answer_plainly() {
  layer_.reset();
  broken_ = true;
  Response response = error_response(400, "This port speaks HTTPS: begin the URL with https://");
  co_await respond(std::move(response));
}

awaitable<std::size_t> Connection::receive_secure(std::span<char> room) {
  bool waited = false;
  for (;;) {
    std::size_t got = 0;
    const Step step = layer_->read(room, got);
    if (step == Step::done) {
      // Others have their turn, also while a peer sends faster than we read.
      if (!waited) co_await asio::post(socket_.get_executor(), asio::use_awaitable);
      co_return got;
    }
    if (step == Step::ended) co_return 0;
    waited = co_await wait_for(step);
    if (!waited) co_return 0;
  }
}

// Whoever was cut off must not take what came for the whole: only an orderly end has a good-bye.
void Connection::close_layer() {
  if (layer_ && sent_ != Sent::part && !abort_) layer_->close();
  layer_.reset();
}

}  // namespace tb::http
