// SPDX-License-Identifier: Apache-2.0
// The bytes of a connection that were received and not yet consumed, in one block.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

namespace tb::http {

class ReadBuffer {
 public:
  std::string_view view() const { return {data_.get() + begin_, end_ - begin_}; }
  bool empty() const { return begin_ == end_; }
  void consume(std::size_t size) { begin_ += size; }
  void commit(std::size_t size) { end_ += size; }

  // Room for more at the end: moves what is left to the front and grows when the room before was
  // all used, up to `limit` bytes in all. Empty when `limit` bytes are waiting already.
  std::span<char> prepare(std::size_t limit);

  // Gives a block that has grown back, if nothing is in it: idle connections should be small.
  void shrink();

 private:
  std::unique_ptr<char[]> data_;
  std::size_t size_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace tb::http
