// SPDX-License-Identifier: Apache-2.0
#include "docker/input.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "guest/carrier_wire.h"

namespace tb::docker {

// The same bytes are offered until they are taken, so that those on their way need not be kept.
ssize_t CarriedInput::write(const char* data, std::size_t size) {
  if (arrived_ > 0) return static_cast<ssize_t>(std::exchange(arrived_, 0));
  if (!open_ || broken_) {
    errno = EPIPE;
    return -1;
  }
  if (carried_ && on_its_way_ == 0 && given_up_ == 0) {
    on_its_way_ = std::min(size, guest::carrier::kInputWindow);
    send_({data, on_its_way_});
  }
  errno = EAGAIN;
  return -1;
}

void CarriedInput::wake() {
  if (const auto ready = std::exchange(ready_, nullptr)) ready();
}

void CarriedInput::close() {
  open_ = false;
  ready_ = nullptr;
}

void CarriedInput::taken(std::size_t bytes, bool closed) {
  const std::size_t unasked = std::min(bytes, given_up_);
  given_up_ -= unasked;
  bytes = std::min(bytes - unasked, on_its_way_);
  on_its_way_ -= bytes;
  arrived_ += bytes;
  broken_ = broken_ || closed;
  wake();
}

std::size_t CarriedInput::give_up() {
  given_up_ += on_its_way_;
  return std::exchange(on_its_way_, 0) + std::exchange(arrived_, 0);
}

void CarriedInput::resumed() {
  carried_ = true;
  wake();
}

void CarriedInput::interrupted() {
  carried_ = false;
  if (on_its_way_ + given_up_ == 0) return;
  broken_ = true;
  wake();
}

}  // namespace tb::docker
