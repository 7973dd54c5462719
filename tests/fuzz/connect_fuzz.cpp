// SPDX-License-Identifier: Apache-2.0
// The envelopes of a Connect stream: cut in any way they are the same, and what was written is
// read.
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "e2b/frames.h"

namespace {

struct Read {
  std::vector<std::string> messages;
  bool broken = false;
  bool operator==(const Read&) const = default;
};

Read read(std::string_view bytes, std::size_t step) {
  tb::e2b::Frames frames;
  Read read;
  for (std::size_t at = 0; at < bytes.size(); at += step) {
    frames.add(bytes.substr(at, step));
    tb::e2b::Frame frame;
    while (frames.next(frame)) {
      if (frame.message.size() > tb::e2b::Frames::kMaxMessage) std::abort();
      read.messages.push_back((frame.last ? "L" : "F") + frame.message);
    }
  }
  read.broken = frames.broken();
  return read;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const std::string_view bytes{reinterpret_cast<const char*>(data), size};
  const std::size_t step = size > 0 ? data[0] % 7 + 1 : 1;
  if (read(bytes, step) != read(bytes, size + 1)) std::abort();
  const Read again = read(tb::e2b::envelope(bytes), step);
  if (again.broken || again.messages.size() != 1) std::abort();
  if (again.messages.front().substr(1) != bytes) std::abort();
  return 0;
}
