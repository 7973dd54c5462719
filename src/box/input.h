// SPDX-License-Identifier: Apache-2.0
// The write side of a process's stdin: what callers want written, in the order of their calls.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "base/async.h"
#include "base/units.h"
#include "os/fd.h"

namespace tb::box {

// Where it goes: a pipe whose other copy the guest has, or one that a carrier writes to for us.
// What is in it outlives us.
class InputSink {
 public:
  virtual ~InputSink() = default;
  virtual bool is_open() const = 0;
  // As write(2) to a pipe that does not block. After EAGAIN the same bytes are offered again.
  virtual ssize_t write(const char* data, std::size_t size) = 0;
  // Calls `ready` when it is worth trying again; not at all once it is closed.
  virtual void wait(std::function<void()> ready) = 0;
  virtual void close() = 0;
  // Of the bytes that were offered last, how many can't be taken back: they arrive on their own.
  virtual std::size_t give_up() { return 0; }
};

class Input : public std::enable_shared_from_this<Input> {
 public:
  // `on_closed` is called once, by whatever way it comes to that.
  Input(asio::any_io_executor executor, os::Fd pipe, std::function<void()> on_closed);
  Input(asio::any_io_executor executor, std::shared_ptr<InputSink> sink,
        std::function<void()> on_closed);

  bool open() const { return sink_->is_open() && !finishing_; }
  // To be written after all that came before; nobody waits for it.
  void push(std::string bytes);
  // Returns once it is in the pipe. Error{conflict}: closed, now or before the last byte was in.
  awaitable<void> write(std::string bytes);
  // The same, but what is not in the pipe after `limit` is taken back. Returns how much is.
  awaitable<std::size_t> offer(std::string bytes, Milliseconds limit);
  // Closes it once all that was asked for is written.
  void finish();
  // Closes it now.
  void close();

 private:
  struct Chunk {
    std::string bytes;
    std::size_t at = 0;  // bytes that are in the pipe
    bool done() const { return at == bytes.size(); }
  };
  std::shared_ptr<const Chunk> add(std::string bytes);
  void check_room() const;
  void flush();

  std::shared_ptr<InputSink> sink_;
  std::function<void()> on_closed_;
  Signal changed_;
  std::deque<std::shared_ptr<Chunk>> queue_;
  std::uint64_t queued_ = 0;  // bytes that wait
  bool finishing_ = false;
  bool waiting_ = false;  // for room in the pipe
};

}  // namespace tb::box
