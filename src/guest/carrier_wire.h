// SPDX-License-Identifier: Apache-2.0
// What the server and a carrier say to each other (docs/formats/carrier.md) over a stream of bytes:
// no descriptor can be passed through a container engine, so that what is in them is told instead.
// A frame is its length, a kind, and fields. No exceptions: the guest includes this too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/codec.h"

namespace tb::guest::carrier {

constexpr std::size_t kMaxFrame = 65 << 20;     // a message for PID 1 is the largest there is
constexpr std::size_t kChunk = 256 << 10;       // of a file, in one frame
constexpr std::size_t kInputWindow = 32 << 10;  // of stdin that may be on its way

// Where in a container the sockets are by which a carrier reaches the server itself.
constexpr const char* kDoorDir = "/.threadbox-run";
constexpr std::size_t kMaxBegin = 256;

enum class Kind : std::uint8_t {
  // server to carrier
  message = 1,     // for PID 1, as it is
  input = 2,       // id, bytes: for a command's stdin or terminal
  resize = 3,      // id, rows, columns
  file_open = 4,   // channel: a file helper is to answer on it
  file_ask = 5,    // channel, bytes: a request to it, as it is
  file_read = 6,   // channel, offset, size: of the file that was opened last
  file_write = 7,  // channel, bytes: to the file that was created last
  file_close = 8,  // channel
  file_take = 9,   // channel, size: what comes out of the pipe that was passed last
  file_give = 10,  // channel, bytes: into it
  file_shut = 11,  // channel: nothing more goes into it
  begin = 12,      // the first frame of all: the name of a socket in kDoorDir, if there is one, and
                   // what to say there. All that follows, both ways, goes through it if it can.
  // carrier to server
  told = 64,          // by PID 1, as it is
  output = 65,        // id, stream, offset, bytes
  output_end = 66,    // id, stream: nobody has it open any more
  input_taken = 67,   // id, how many bytes, whether nobody reads it any more
  file_answer = 68,   // channel, whether a file came with it, its FileState, bytes: as it is
  file_data = 69,     // channel, errno, bytes: answers file_read and file_take
  file_written = 70,  // channel, errno: answers file_write and file_give
  file_ended = 71,    // channel: the helper is gone
};

// Of a descriptor that the helper passed.
struct FileState {
  std::uint32_t mode = 0;
  std::uint64_t size = 0;
  std::string version;  // files::version_of()

  void encode(Writer& out) const {
    out.u32(mode);
    out.u64(size);
    out.bytes(version);
  }
  static FileState decode(Reader& in) {
    FileState state;
    state.mode = in.u32();
    state.size = in.u64();
    state.version = in.bytes();
    return state;
  }
};

// `payload` is all that follows the kind.
inline void add_frame(std::string& to, Kind kind, std::string_view payload) {
  const std::uint32_t size = static_cast<std::uint32_t>(payload.size() + 1);
  char head[sizeof size + 1];
  std::memcpy(head, &size, sizeof size);
  head[sizeof size] = static_cast<char>(kind);
  to.append(head, sizeof head).append(payload);
}

inline std::string frame(Kind kind, std::string_view payload) {
  std::string text;
  add_frame(text, kind, payload);
  return text;
}

// Cuts frames out of bytes as they come.
class Frames {
 public:
  explicit Frames(std::size_t largest = kMaxFrame) : largest_(largest) {}
  void add(std::string_view bytes) {
    if (at_ == in_.size()) {
      in_.clear();
      at_ = 0;
    } else if (at_ > kChunk) {
      in_.erase(0, at_);
      at_ = 0;
    }
    in_.append(bytes);
  }
  // False: none is complete. The payload lives until the next add().
  bool next(Kind& kind, std::string_view& payload) {
    std::uint32_t size = 0;
    if (broken_ || in_.size() - at_ < sizeof size) return false;
    std::memcpy(&size, in_.data() + at_, sizeof size);
    if (size == 0 || size > largest_) broken_ = true;
    if (broken_ || in_.size() - at_ - sizeof size < size) return false;
    kind = static_cast<Kind>(in_[at_ + sizeof size]);
    payload = std::string_view{in_}.substr(at_ + sizeof size + 1, size - 1);
    at_ += sizeof size + size;
    return true;
  }
  // Not a frame's length: nothing that follows means anything.
  bool broken() const { return broken_; }

 private:
  std::size_t largest_;
  std::string in_;
  std::size_t at_ = 0;
  bool broken_ = false;
};

}  // namespace tb::guest::carrier
