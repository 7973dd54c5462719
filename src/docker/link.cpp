// SPDX-License-Identifier: Apache-2.0
#include "docker/link.h"

#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <utility>

namespace tb::docker {
namespace {

constexpr std::size_t kHead = 8;
constexpr std::size_t kMaxErrors = 2 << 10;
constexpr std::size_t kMaxQueued = 192 << 20;  // bytes; the largest message is a third of it
constexpr std::size_t kRead = 256 << 10;
constexpr std::size_t kMaxIncoming = 2 << 20;  // a carrier sends none larger

}  // namespace

std::string Pieces::take(std::string_view bytes) {
  std::string out;
  while (!bytes.empty() && !broken_) {
    if (left_ > 0) {
      const std::string_view part = bytes.substr(0, left_);
      (to_errors_ ? errors_ : out).append(part);
      left_ -= static_cast<std::uint32_t>(part.size());
      bytes.remove_prefix(part.size());
      continue;
    }
    const std::size_t more = std::min(kHead - head_.size(), bytes.size());
    head_.append(bytes.substr(0, more));
    bytes.remove_prefix(more);
    if (head_.size() < kHead) break;
    const auto byte = [this](std::size_t i) {
      return static_cast<std::uint32_t>(static_cast<unsigned char>(head_[i]));
    };
    left_ = byte(4) << 24 | byte(5) << 16 | byte(6) << 8 | byte(7);
    to_errors_ = byte(0) == 2;
    broken_ = byte(0) > 2 || byte(1) != 0 || byte(2) != 0 || byte(3) != 0;
    head_.clear();
  }
  if (errors_.size() > kMaxErrors) errors_.erase(0, errors_.size() - kMaxErrors);
  return out;
}

Link::Link(asio::any_io_executor executor, Attached attached, os::Fd direct)
    : socket_(executor),
      direct_(static_cast<bool>(direct)),
      rest_(direct_ ? std::string{} : std::move(attached.rest)),
      frames_(kMaxIncoming) {
  os::Fd used = direct_ ? std::move(direct) : std::move(attached.socket);
  kept_ = std::move(attached.socket);
  os::set_nonblocking(used);
  socket_.assign(used.release());
}

bool Link::take(std::string_view bytes, const OnFrame& on_frame) {
  if (direct_) {
    frames_.add(bytes);
  } else {
    frames_.add(pieces_.take(bytes));
  }
  guest::carrier::Kind kind{};
  std::string_view payload;
  while (socket_.is_open() && frames_.next(kind, payload)) on_frame(kind, payload);
  return !frames_.broken() && !pieces_.broken();
}

awaitable<std::string> Link::run(OnFrame on_frame, std::function<void()> after) {
  const auto self = shared_from_this();
  bool good = take(rest_, on_frame);
  if (!rest_.empty()) after();
  rest_.clear();
  std::string buffer(kRead, '\0');
  while (good && socket_.is_open()) {
    const auto [error, got] =
        co_await socket_.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
    if (error || got == 0) break;
    good = take({buffer.data(), got}, on_frame);
    after();
  }
  const bool closed = !socket_.is_open();
  close();
  if (!good) co_return "what came was no answer of ours";
  co_return closed ? std::string{} : pieces_.errors();
}

bool Link::send(guest::carrier::Kind kind, std::string_view payload) {
  if (!socket_.is_open()) return true;  // its end is on its way
  if (out_.size() - at_ + payload.size() > kMaxQueued) return false;
  guest::carrier::add_frame(out_, kind, payload);
  if (flushing_) return true;
  flushing_ = true;
  asio::post(socket_.get_executor(), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->flush();
  });
  return true;
}

void Link::flush() {
  flushing_ = false;
  while (socket_.is_open() && at_ < out_.size()) {
    const ssize_t n = ::send(socket_.native_handle(), out_.data() + at_, out_.size() - at_,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return flush_later();
    if (n < 0) break;  // the reader sees the end too
    at_ += static_cast<std::size_t>(n);
  }
  out_.clear();
  at_ = 0;
}

void Link::flush_later() {
  if (at_ > out_.size() / 2) out_.erase(0, std::exchange(at_, 0));
  flushing_ = true;
  socket_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [weak = weak_from_this()](boost::system::error_code error) {
                       const auto self = weak.lock();
                       if (self && !error) self->flush();
                     });
}

void Link::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  kept_.reset();
  out_.clear();
  at_ = 0;
}

}  // namespace tb::docker
