// SPDX-License-Identifier: Apache-2.0
#include "e2b/frames.h"

namespace tb::e2b {
namespace {

constexpr std::size_t kHead = 5;
constexpr unsigned char kLast = 2;

}  // namespace

std::string envelope(std::string_view message) {
  const auto size = static_cast<std::uint32_t>(message.size());
  std::string out(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(size >> shift));
  return out.append(message);
}

void Frames::add(std::string_view bytes) {
  if (broken_ || bytes.empty()) return;
  if (ended_) {
    broken_ = true;
    return;
  }
  bytes_.append(bytes);
}

bool Frames::next(Frame& frame) {
  if (broken_ || bytes_.size() - at_ < kHead) return false;
  const auto byte = [this](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes_[at_ + i]));
  };
  const std::uint32_t size = byte(1) << 24 | byte(2) << 16 | byte(3) << 8 | byte(4);
  if (ended_ || (byte(0) != 0 && byte(0) != kLast) || size > kMaxMessage) {
    broken_ = true;
    return false;
  }
  if (bytes_.size() - at_ - kHead < size) return false;
  frame.last = byte(0) == kLast;
  frame.message.assign(bytes_, at_ + kHead, size);
  at_ += kHead + size;
  ended_ = frame.last;
  if (at_ == bytes_.size() || at_ > kMaxMessage) {
    bytes_.erase(0, at_);
    at_ = 0;
  }
  if (ended_ && !bytes_.empty() && bytes_.size() > at_) broken_ = true;
  return true;
}

}  // namespace tb::e2b
