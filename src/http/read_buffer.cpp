// SPDX-License-Identifier: Apache-2.0
#include "http/read_buffer.h"

#include <algorithm>
#include <cstring>

namespace tb::http {
namespace {

constexpr std::size_t kFirstSize = 4 << 10;

}  // namespace

std::span<char> ReadBuffer::prepare(std::size_t limit) {
  const std::size_t held = end_ - begin_;
  const bool filled = end_ == size_;
  if (held == 0) begin_ = end_ = 0;
  if (filled) {
    // One that was filled and is empty again would serve, but more is to be expected.
    if (held > size_ / 2 || (held == 0 && size_ < limit)) {
      const std::size_t size = std::max(held, std::min(limit, std::max(size_ * 2, kFirstSize)));
      auto data = std::make_unique_for_overwrite<char[]>(size);
      if (held != 0) std::memcpy(data.get(), data_.get() + begin_, held);
      data_ = std::move(data);
      size_ = size;
    } else {
      std::memmove(data_.get(), data_.get() + begin_, held);
    }
    begin_ = 0;
    end_ = held;
  }
  return {data_.get() + end_, size_ - end_};
}

void ReadBuffer::shrink() {
  if (!empty() || size_ <= kFirstSize) return;
  data_.reset();
  size_ = begin_ = end_ = 0;
}

}  // namespace tb::http
