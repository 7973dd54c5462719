// SPDX-License-Identifier: Apache-2.0
#include "native/input.h"

#include <signal.h>

#include <cerrno>
#include <utility>

#include "base/error.h"

namespace tb::native {
namespace {

constexpr std::uint64_t kMaxQueued = 16 << 20;  // bytes that wait for a program that does not read

Error closed() { return {Code::conflict, "stdin is closed"}; }

// A program that closes its stdin is an answer (EPIPE), not our end.
void ignore_sigpipe() {
  static const auto before = ::signal(SIGPIPE, SIG_IGN);
  (void)before;
}

}  // namespace

Input::Input(asio::any_io_executor executor, os::Fd pipe, std::function<void()> on_closed)
    : pipe_(executor), on_closed_(std::move(on_closed)), changed_(executor) {
  os::set_nonblocking(pipe);
  pipe_.assign(pipe.release());
  ignore_sigpipe();
}

void Input::push(std::string bytes) {
  if (!open() || bytes.empty()) return;
  pushed_ += bytes.size();
  queue_.push_back(std::move(bytes));
  if (!waiting_) flush();
}

awaitable<void> Input::write(std::string bytes) {
  const auto self = shared_from_this();
  if (!open()) throw closed();
  if (pushed_ - written_ >= kMaxQueued) {
    throw Error{Code::exhausted, "the process does not read its stdin, and too much waits for it"};
  }
  push(std::move(bytes));
  const std::uint64_t end = pushed_;
  while (written_ < end && pipe_.is_open()) co_await changed_.wait();
  if (written_ < end) throw closed();
}

void Input::finish() {
  if (!open()) return;
  finishing_ = true;
  if (!waiting_) flush();
}

void Input::close() {
  if (!pipe_.is_open()) return;
  boost::system::error_code ignored;
  pipe_.close(ignored);
  queue_.clear();
  changed_.notify_all();
  if (const auto tell = std::exchange(on_closed_, nullptr)) tell();
}

void Input::flush() {
  const std::uint64_t before = written_;
  while (!queue_.empty()) {
    const std::string& first = queue_.front();
    const ssize_t n = ::write(pipe_.native_handle(), first.data() + at_, first.size() - at_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0) return close();  // EPIPE: nobody reads; EIO: the terminal has hung up
    at_ += static_cast<std::size_t>(n);
    written_ += static_cast<std::size_t>(n);
    if (at_ < first.size()) continue;
    at_ = 0;
    queue_.pop_front();
  }
  if (written_ != before) changed_.notify_all();
  if (queue_.empty()) {
    if (finishing_) close();
    return;
  }
  waiting_ = true;
  pipe_.async_wait(asio::posix::stream_descriptor::wait_write,
                   [self = weak_from_this()](boost::system::error_code error) {
                     const auto input = self.lock();
                     if (!input) return;
                     input->waiting_ = false;
                     if (!error) input->flush();
                   });
}

}  // namespace tb::native
