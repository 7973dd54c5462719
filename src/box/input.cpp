// SPDX-License-Identifier: Apache-2.0
#include "box/input.h"

#include <signal.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cerrno>
#include <utility>

#include "base/error.h"

namespace tb::box {
namespace {

constexpr std::uint64_t kMaxQueued = 16 << 20;  // bytes that wait for a program that does not read

Error closed() { return {Code::conflict, "stdin is closed"}; }

// A program that closes its stdin is an answer (EPIPE), not our end.
void ignore_sigpipe() {
  static const auto before = ::signal(SIGPIPE, SIG_IGN);
  (void)before;
}

class PipeSink : public InputSink {
 public:
  PipeSink(asio::any_io_executor executor, os::Fd pipe) : pipe_(executor) {
    os::set_nonblocking(pipe);
    pipe_.assign(pipe.release());
    ignore_sigpipe();
  }
  bool is_open() const override { return pipe_.is_open(); }
  ssize_t write(const char* data, std::size_t size) override {
    return ::write(pipe_.native_handle(), data, size);
  }
  void wait(std::function<void()> ready) override {
    pipe_.async_wait(asio::posix::stream_descriptor::wait_write,
                     [ready = std::move(ready)](boost::system::error_code error) {
                       if (!error) ready();
                     });
  }
  void close() override {
    boost::system::error_code ignored;
    pipe_.close(ignored);
  }

 private:
  asio::posix::stream_descriptor pipe_;
};

}  // namespace

Input::Input(asio::any_io_executor executor, os::Fd pipe, std::function<void()> on_closed)
    : Input(executor, std::make_shared<PipeSink>(executor, std::move(pipe)), std::move(on_closed)) {
}

Input::Input(asio::any_io_executor executor, std::shared_ptr<InputSink> sink,
             std::function<void()> on_closed)
    : sink_(std::move(sink)), on_closed_(std::move(on_closed)), changed_(executor) {}

void Input::push(std::string bytes) {
  if (open() && !bytes.empty()) add(std::move(bytes));
}

std::shared_ptr<const Input::Chunk> Input::add(std::string bytes) {
  if (!open()) throw closed();
  auto chunk = std::make_shared<Chunk>();
  chunk->bytes = std::move(bytes);
  queued_ += chunk->bytes.size();
  queue_.push_back(chunk);
  if (!waiting_) flush();
  return chunk;
}

void Input::check_room() const {
  if (queued_ < kMaxQueued) return;
  throw Error{Code::limited, "the process does not read its stdin, and too much waits for it"};
}

awaitable<void> Input::write(std::string bytes) {
  const auto self = shared_from_this();
  check_room();
  const auto chunk = add(std::move(bytes));
  while (!chunk->done() && sink_->is_open()) co_await changed_.wait();
  if (!chunk->done()) throw closed();
}

awaitable<std::size_t> Input::offer(std::string bytes, Milliseconds limit) {
  const auto self = shared_from_this();
  check_room();
  const auto chunk = add(std::move(bytes));
  auto settled = [&] { return chunk->done() || !sink_->is_open(); };
  if (co_await changed_.until(settled, limit)) {
    if (!chunk->done()) throw closed();
    co_return chunk->at;
  }
  const auto place = std::find(queue_.begin(), queue_.end(), chunk);
  if (place == queue_.begin() && place != queue_.end()) {
    // What is on its way can't be taken back: it counts as written.
    const std::size_t away = std::min(sink_->give_up(), chunk->bytes.size() - chunk->at);
    (*place)->at += away;
    queued_ -= away;
  }
  if (place != queue_.end()) queue_.erase(place);
  queued_ -= chunk->bytes.size() - chunk->at;
  if (queue_.empty() && finishing_) close();
  co_return chunk->at;
}

void Input::finish() {
  if (!open()) return;
  finishing_ = true;
  if (!waiting_) flush();
}

void Input::close() {
  if (!sink_->is_open()) return;
  sink_->close();
  queue_.clear();
  queued_ = 0;
  changed_.notify_all();
  if (const auto tell = std::exchange(on_closed_, nullptr)) tell();
}

void Input::flush() {
  bool any = false;
  while (!queue_.empty()) {
    Chunk& first = *queue_.front();
    const std::string_view rest = std::string_view{first.bytes}.substr(first.at);
    const ssize_t n = rest.empty() ? 0 : sink_->write(rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return close();  // EPIPE: nobody reads; EIO: the terminal has hung up
    any = true;
    first.at += static_cast<std::size_t>(n);
    queued_ -= static_cast<std::size_t>(n);
    if (first.done()) queue_.pop_front();
  }
  if (any) changed_.notify_all();
  if (queue_.empty()) {
    if (finishing_) close();
    return;
  }
  waiting_ = true;
  sink_->wait([self = weak_from_this()] {
    const auto input = self.lock();
    if (!input) return;
    input->waiting_ = false;
    input->flush();
  });
}

}  // namespace tb::box
