// SPDX-License-Identifier: Apache-2.0
// A stream of bytes from or to a descriptor, compressed by gzip or not.
#pragma once

#include <sys/types.h>
#include <zlib.h>

#include <string_view>
#include <vector>

namespace tb::guest {

// Tells by the first bytes whether it is compressed. Members behind one another are one stream.
class PackedReader {
 public:
  explicit PackedReader(int fd) : fd_(fd), buffer_(kPiece) {}
  ~PackedReader();
  PackedReader(const PackedReader&) = delete;
  PackedReader& operator=(const PackedReader&) = delete;
  // How many; 0 at the end; -1: can't be read, or is broken or cut in the middle.
  ssize_t read(char* to, std::size_t size);

 private:
  static constexpr std::size_t kPiece = 64 << 10;
  bool refill();
  ssize_t inflate_some(char* to, std::size_t size);

  int fd_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t have_ = 0;
  bool begun_ = false;
  bool packed_ = false;
  bool in_member_ = false;
  bool failed_ = false;
  z_stream stream_{};
};

class PackedWriter {
 public:
  PackedWriter(int fd, bool packs);
  ~PackedWriter();
  PackedWriter(const PackedWriter&) = delete;
  PackedWriter& operator=(const PackedWriter&) = delete;
  // False: nobody takes it.
  bool write(std::string_view bytes);
  bool finish();

 private:
  bool deflate_some(std::string_view bytes, int flush);
  bool write_all(std::string_view bytes) const;

  int fd_;
  bool packs_;
  std::vector<char> buffer_;
  z_stream stream_{};
};

}  // namespace tb::guest
