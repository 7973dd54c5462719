// SPDX-License-Identifier: Apache-2.0
// A command's stdin that a carrier writes to for us.
#pragma once

#include <functional>
#include <string_view>

#include "box/input.h"

namespace tb::docker {

// One piece is on its way at a time; it counts as written once the carrier says that it is in the
// pipe.
class CarriedInput : public box::InputSink {
 public:
  using Send = std::function<void(std::string_view bytes)>;
  explicit CarriedInput(Send send) : send_(std::move(send)) {}

  bool is_open() const override { return open_; }
  ssize_t write(const char* data, std::size_t size) override;
  void wait(std::function<void()> ready) override { ready_ = std::move(ready); }
  void close() override;
  std::size_t give_up() override;

  // So many bytes are in the pipe; `closed`: nobody reads it.
  void taken(std::size_t bytes, bool closed);
  // The carrier is gone; nothing is sent until the next one has the stream. Nobody knows what
  // became of what was on its way: it must not arrive twice.
  void interrupted();
  void resumed();

 private:
  void wake();

  Send send_;
  std::function<void()> ready_;
  bool open_ = true;
  bool broken_ = false;
  bool carried_ = true;
  std::size_t on_its_way_ = 0;
  std::size_t arrived_ = 0;
  std::size_t given_up_ = 0;  // on its way too, but nobody waits for it
};

}  // namespace tb::docker
