// SPDX-License-Identifier: Apache-2.0
// The output of a connection: responses, whole or in pieces.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>

#include "base/error.h"
#include "http/connection.h"
#include "http/serialize.h"
#include "http/unsent.h"

namespace tb::http {
namespace {

namespace asio = boost::asio;

// A body up to this size is copied behind its head; a larger one is sent from where it is.
constexpr std::size_t kCopiedBody = 4 << 10;

std::size_t size_of(const Pieces& pieces) {
  return pieces[0].size() + pieces[1].size() + pieces[2].size();
}

}  // namespace

bool Connection::push(Pieces& pieces) {
  const std::size_t before = size_of(pieces);
  const bool all = layer_ ? layer_->push(pieces) : push_pieces(socket_.native_handle(), pieces);
  transferred_ += before - size_of(pieces);
  return all;
}

bool Connection::push_bytes(FileBytes& bytes) {
  const std::uint64_t before = bytes.size;
  const bool all = layer_ ? layer_->push_file(bytes) : push_file(socket_.native_handle(), bytes);
  transferred_ += before - bytes.size;
  return all;
}

awaitable<void> Connection::send(Pieces pieces) {
  if (!push(pieces)) co_await finish_sending(pieces);
}

awaitable<void> Connection::finish_sending(Pieces pieces) {
  do {
    co_await wait_writable();
  } while (!push(pieces));
}

awaitable<void> Connection::send_file(FileBytes bytes) {
  while (!push_bytes(bytes)) co_await wait_writable();
}

awaitable<void> Connection::wait_writable() {
  unsent_ = unsent(socket_.native_handle());
  writing_ = {.deadline = Clock::now() + server_.limits.write_stall};
  boost::system::error_code error;
  do {
    writing_.disturbed = false;
    const auto [result] = co_await socket_.async_wait(asio::posix::descriptor_base::wait_write,
                                                      asio::as_tuple(asio::use_awaitable));
    error = result;
  } while (error && writing_.disturbed && !writing_.expired);
  writing_.deadline = Clock::time_point::max();
  if (error || writing_.expired) {
    abort_ = true;
    throw Disconnected{};
  }
}

// A socket with much in it may be writable again only after more than `write_stall`, though the
// reader takes of it all the time: then it has as long once more.
void Connection::look_at_reader(Clock::time_point now) {
  if (writing_.deadline == Clock::time_point::max()) return;
  if (!reader_goes_on(socket_.native_handle(), unsent_)) return;
  unsent_ = unsent(socket_.native_handle());
  writing_.deadline = now + server_.limits.write_stall;
}

// What is the same for all heads.
HeadFraming Connection::start_framing(const Response& response) {
  HeadFraming framing;
  framing.date = server_.date;
  // A request that could not be read has got no name yet.
  if (request().id.empty()) parser_.set_id(server_.ids.make());
  if (!response.find("X-Request-Id")) framing.request_id = request().id;
  framing.added = added_headers_;
  if (layer_) framing.hsts = server_.hsts;
  return framing;
}

// Fills out_ with the head and settles how this exchange ends.
void Connection::start_head(const Response& response, std::optional<std::uint64_t> length,
                            bool reusable) {
  if (sent_ != Sent::nothing) throw Error{Code::internal, "a second response to one request"};
  const bool old = request().version < 11;
  const bool has_body = status_has_body(response.status);
  HeadFraming framing = start_framing(response);
  if (has_body) framing.length = length;
  framing.chunked = has_body && !length && !old;
  const bool until_close = has_body && !length && old;
  framing.close = !reusable || until_close || server_.draining || !parser_.keep_alive() ||
                  asks_to_close(response);
  framing.keep_alive = old && !framing.close;

  out_.clear();
  append_head(out_, response, framing);
  sent_ = Sent::part;
  close_after_ = framing.close;
  // Input that nobody will read makes a plain close unsafe for the response.
  if (!reusable) broken_ = true;
  out_has_body_ = has_body && request().method != "HEAD";
  out_chunked_ = framing.chunked;
  out_left_ = length;
}

awaitable<void> Connection::respond(Response response) {
  start_head(response, response.body.size(), body_can_be_skipped());
  Pieces pieces{out_, response.body};
  if (!out_has_body_) {
    pieces[1] = {};
  } else if (response.body.size() <= kCopiedBody) {
    out_ += response.body;
    pieces = {out_};
  }
  if (!push(pieces)) co_await finish_sending(pieces);
  sent_ = Sent::all;
}

awaitable<void> Connection::begin(Response head, std::optional<std::uint64_t> length) {
  if (!head.body.empty()) throw Error{Code::internal, "a response with two bodies"};
  start_head(head, length, !broken_ && parser_.body_done());
  const Pieces pieces{out_};
  co_await send(pieces);
}

// What is about to be sent; false: nothing is.
bool Connection::count_body(std::uint64_t size) {
  if (sent_ != Sent::part) throw Error{Code::internal, "a write outside of a response"};
  if (size == 0) return false;  // An empty chunk would end the body.
  if (out_left_) {
    if (size > *out_left_) throw Error{Code::internal, "more response body than announced"};
    *out_left_ -= size;
  }
  return out_has_body_;
}

awaitable<void> Connection::write(std::string_view bytes) {
  if (!count_body(bytes.size())) co_return;
  Pieces pieces{bytes};
  std::array<char, 18> size_line;
  if (out_chunked_) {
    char* end = std::to_chars(size_line.data(), size_line.data() + 16, bytes.size(), 16).ptr;
    *end++ = '\r';
    *end++ = '\n';
    pieces = {std::string_view{size_line.data(), end}, bytes, "\r\n"};
  }
  if (!push(pieces)) co_await finish_sending(pieces);
}

// Not what is encrypted or cut into chunks.
awaitable<std::uint64_t> Connection::write_by(const Send& send, std::uint64_t size) {
  if (layer_ || !out_left_ || !out_has_body_) co_return 0;
  const std::uint64_t most = std::min(size, *out_left_);
  std::uint64_t sent = 0;
  Unsent waiting{socket_.native_handle()};
  while (sent < most) {
    const auto moved = co_await send(socket_.native_handle(), sent, most - sent);
    if (!moved) break;
    count_body(*moved);
    sent += *moved;
    transferred_ += *moved;
    if (sent == most) break;
    // Most likely the socket is full: to ask for that is cheaper than to try.
    const auto full = Clock::now();
    co_await wait_writable();
    waiting.note(*moved, Clock::now() - full);
  }
  co_return sent;
}

awaitable<void> Connection::end() {
  if (sent_ != Sent::part) throw Error{Code::internal, "the end of no response"};
  if (out_left_.value_or(0) != 0) {
    throw Error{Code::internal, "less response body than announced"};
  }
  if (out_chunked_ && out_has_body_) {
    const Pieces last{"0\r\n\r\n"};
    co_await send(last);
  }
  sent_ = Sent::all;
}

}  // namespace tb::http
