// SPDX-License-Identifier: Apache-2.0
// The envelopes of a Connect stream: a byte of flags, the length in big endian, a message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tb::e2b {

std::string envelope(std::string_view message);

struct Frame {
  bool last = false;  // its message is how the stream ended
  std::string message;
};

// Bytes to frames, however they are cut.
class Frames {
 public:
  static constexpr std::uint32_t kMaxMessage = 8 << 20;

  void add(std::string_view bytes);
  // False: there is no whole one yet, or broken().
  bool next(Frame& frame);
  // What came is no stream that we understand: too large, compressed, or after its end.
  bool broken() const { return broken_; }
  // Nothing of another frame has come.
  bool between() const { return bytes_.size() == at_; }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
  bool ended_ = false;
  bool broken_ = false;
};

}  // namespace tb::e2b
