// SPDX-License-Identifier: Apache-2.0
// The chunked transfer coding, decoded byte by byte and strictly: hex digits, an optional bounded
// ";name=token", CR LF; nothing else. Trailers are refused: nobody here wants them, and a header
// that comes after the body invites a second reading of it. Beast's decoder needs each chunk line
// and all trailers in one buffer, unbounded, and takes blanks around extensions; the fuzz target
// checks that it agrees with this one on all that this one accepts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tb::http {

class ChunkDecoder {
 public:
  struct Progress {
    std::size_t consumed = 0;
    std::size_t produced = 0;
  };

  // Decodes from `in` to `out` until one of them is used up or the body has ended. Throws
  // HttpError 400; the decoder is of no use after that.
  Progress decode(std::string_view in, std::span<char> out);

  // The last chunk has been consumed; what follows is the next message.
  bool done() const { return state_ == State::done; }

 private:
  enum class State {
    size,             // Hex digits.
    extension_name,   // After ';'.
    extension_value,  // After '='.
    size_lf,          // After the CR of a size line.
    data,             // remaining_ bytes.
    data_cr,          // The CR LF that ends a chunk.
    data_lf,
    final_cr,  // The empty line after the last chunk.
    final_lf,
    done,
  };

  void step(char c);
  void step_size(char c);
  void step_extension(char c);
  void count_extension();
  void finish_size_line();

  State state_ = State::size;
  int digits_ = 0;     // Of the size so far.
  bool empty_ = true;  // The extension name or value has no character yet.
  std::uint64_t remaining_ = 0;
  std::size_t extensions_ = 0;  // Bytes of extensions so far.
};

}  // namespace tb::http
