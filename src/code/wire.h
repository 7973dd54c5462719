// SPDX-License-Identifier: Apache-2.0
// What goes between us and the driver of an interpreter (code/drivers): requests of some fields,
// and frames of bytes. Whatever runs in the interpreter can write frames too, so nothing in them is
// trusted but for their sender's own sake.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tb::code {

// What was said can't be a frame: the rest can't be understood either.
class Broken : public Error {
 public:
  explicit Broken(const std::string& why) : Error(Code::unavailable, why) {}
};

constexpr std::size_t kMaxFrame = 64 << 10;

struct Frame {
  enum class Kind : char {
    out = '1',  // printed by the code
    err = '2',
    part = 'p',     // of a message that goes on
    result = 'r',   // JSON
    end = 'e',      // of the call: JSON
    ready = 's',    // set up; what failed, if it did
    synced = 'y',   // what was asked for with it, and for whom it works
    stray = '!',    // printed past the driver; not of the wire
    silence = ' ',  // nothing came for a while; not of the wire
  };
  Kind kind = Kind::silence;
  std::uint32_t call = 0;
  std::string data;
};

std::string encode_request(const std::vector<std::string>& fields);
std::string encode_frame(const Frame& frame);

// Bytes as they come, frames as they are whole.
class Frames {
 public:
  void add(std::string_view bytes);
  // Throws Broken.
  std::optional<Frame> next();
  // Throws everything away up to the frame that begins with `mark`; empty: it has not come yet.
  std::optional<Frame> find(std::string_view mark);

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace tb::code
