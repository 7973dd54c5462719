// SPDX-License-Identifier: Apache-2.0
#include "code/channel.h"

#include <boost/asio/experimental/awaitable_operators.hpp>

#include "base/id.h"

namespace tb::code {
namespace {

using sandbox::Stream;

constexpr std::size_t kRead = 64 << 10;
constexpr std::uint64_t kAcknowledge = 64 << 10;  // bytes; the driver waits at 192 KiB

}  // namespace

Channel::Channel(std::shared_ptr<sandbox::Process> process) : process_(std::move(process)) {
  offset_ = acknowledged_ = process_->output_size(Stream::out);
  stray_ = process_->output_size(Stream::err);
}

awaitable<void> Channel::send(std::vector<std::string> fields) {
  std::string request = encode_request(fields);
  co_await process_->write_input(std::move(request));
}

// False: nothing new was there.
bool Channel::fill() {
  const std::string bytes = process_->read_output(Stream::out, offset_, kRead);
  if (bytes.empty()) {
    if (process_->output_size(Stream::out) > offset_) throw Broken{"more than could be kept"};
    return false;
  }
  offset_ += bytes.size();
  frames_.add(bytes);
  return true;
}

std::string Channel::read_stray() {
  std::string bytes = process_->read_output(Stream::err, stray_, kMaxFrame);
  if (bytes.empty() && process_->output_size(Stream::err) > stray_) {
    stray_ = process_->next_output(Stream::err, stray_);
    bytes = process_->read_output(Stream::err, stray_, kMaxFrame);
  }
  stray_ += bytes.size();
  return bytes;
}

awaitable<void> Channel::acknowledge() {
  if (offset_ - acknowledged_ < kAcknowledge || process_->exit()) co_return;
  acknowledged_ = offset_;
  std::vector<std::string> fields{"ack", std::to_string(offset_)};
  co_await send(std::move(fields));
}

// Until it has said something, has ended, or `wake` is due.
awaitable<bool> Channel::changed(Nudge* wake) {
  using namespace asio::experimental::awaitable_operators;
  const std::uint64_t seen = offset_ + stray_;
  if (wake) {
    co_await (process_->wait_output(Stream::all, seen) || process_->wait() || wake->wait());
  } else {
    co_await (process_->wait_output(Stream::all, seen) || process_->wait());
  }
  co_return true;
}

awaitable<std::optional<Frame>> Channel::next(Milliseconds patience, Nudge* wake) {
  for (;;) {
    if (auto frame = frames_.next()) co_return frame;
    const bool over = process_->exit().has_value();  // what it said until then is there
    if (fill()) {
      co_await acknowledge();
      continue;
    }
    Frame other;
    other.data = read_stray();
    if (!other.data.empty()) {
      other.kind = Frame::Kind::stray;
      co_return other;
    }
    if (over) co_return std::nullopt;
    const auto woken = co_await within(patience, changed(wake));
    if (!woken || (wake && wake->take())) co_return other;
  }
}

awaitable<bool> Channel::find_mark(std::string mark, std::shared_ptr<std::string> answer) {
  for (;;) {
    if (const auto frame = frames_.find(mark)) {
      *answer = frame->data.substr(mark.size());
      co_return true;
    }
    if (fill()) continue;
    if (process_->exit()) co_return false;
    stray_ = process_->output_size(Stream::err);
    co_await changed(nullptr);
  }
}

awaitable<std::optional<std::string>> Channel::sync(Milliseconds limit) {
  const std::string mark = make_uuid();
  const auto answer = std::make_shared<std::string>();
  std::vector<std::string> fields{"sync", mark};
  std::string request = encode_request(fields);
  // Its stdin may be full, and it may be dead.
  const std::size_t size = request.size();
  if (co_await process_->offer_input(std::move(request), limit) != size) co_return std::nullopt;
  const auto found = co_await within(limit, find_mark(mark, answer));
  if (!found || !*found) co_return std::nullopt;
  acknowledged_ = offset_;
  co_return *answer;
}

}  // namespace tb::code
