// SPDX-License-Identifier: Apache-2.0
#include "code/wire.h"

#include "base/codec.h"

namespace tb::code {
namespace {

constexpr std::string_view kMagic = "TB";
constexpr std::size_t kHead = 11;  // magic, kind, call, size
constexpr std::string_view kKinds = "12presy";

}  // namespace

std::string encode_request(const std::vector<std::string>& fields) {
  std::size_t size = 0;
  for (const std::string& field : fields) size += 4 + field.size();
  Writer out;
  out.u32(static_cast<std::uint32_t>(size));
  for (const std::string& field : fields) out.bytes(field);
  return out.take();
}

std::string encode_frame(const Frame& frame) {
  Writer out;
  out.u32(frame.call);
  out.bytes(frame.data);
  return std::string{kMagic} + static_cast<char>(frame.kind) + out.take();
}

void Frames::add(std::string_view bytes) {
  if (at_ == bytes_.size() || at_ > kMaxFrame) {
    bytes_.erase(0, at_);
    at_ = 0;
  }
  bytes_ += bytes;
}

std::optional<Frame> Frames::next() {
  const std::string_view rest = std::string_view{bytes_}.substr(at_);
  if (!kMagic.starts_with(rest.substr(0, kMagic.size()))) {
    throw Broken{"something that is no frame"};
  }
  if (rest.size() < kHead) return std::nullopt;
  if (kKinds.find(rest[2]) == kKinds.npos) throw Broken{"a frame of no kind"};
  Reader in{rest.substr(3)};
  Frame frame;
  frame.kind = static_cast<Frame::Kind>(rest[2]);
  frame.call = in.u32();
  const std::uint32_t size = in.u32();
  if (size > kMaxFrame) throw Broken{"a frame that is too large"};
  if (rest.size() < kHead + size) return std::nullopt;
  frame.data = rest.substr(kHead, size);
  at_ += kHead + size;
  return frame;
}

std::optional<Frame> Frames::find(std::string_view mark) {
  const std::size_t found = bytes_.find(mark, at_);
  if (found == bytes_.npos || found < at_ + kHead) {
    // Its beginning may be there.
    const std::size_t keep = mark.size() + kHead;
    if (bytes_.size() > at_ + keep) at_ = bytes_.size() - keep;
    return std::nullopt;
  }
  at_ = found - kHead;
  return next();
}

}  // namespace tb::code
