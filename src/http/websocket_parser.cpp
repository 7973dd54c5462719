// SPDX-License-Identifier: Apache-2.0
#include "http/websocket_parser.h"

#include <algorithm>
#include <cstring>

#include "base/utf8.h"

namespace tb::http {
namespace {

constexpr std::size_t kMaxControl = 125;
constexpr std::size_t kFirstPiece = 64 << 10;
constexpr std::size_t kBlock = 8 << 10;
constexpr unsigned kLastBit = 0x80;
constexpr unsigned kReservedBits = 0x70;
constexpr unsigned kMaskBit = 0x80;
constexpr unsigned kLength16 = 126;
constexpr unsigned kLength64 = 127;

bool is_opcode(unsigned value) { return value <= 2 || (value >= 8 && value <= 10); }

}  // namespace

bool is_close_code(int code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) ||
         (code >= 3000 && code <= 4999);
}

void apply_mask(char* data, std::size_t size, Mask mask, std::size_t offset) {
  // Twice the mask, turned so that it begins at `offset`.
  std::array<char, 8> turned;
  for (std::size_t i = 0; i < turned.size(); ++i) turned[i] = mask[(offset + i) % mask.size()];
  std::uint64_t key;
  std::memcpy(&key, turned.data(), sizeof key);
  const auto mask_word = [&](std::size_t at) {
    std::uint64_t word;
    std::memcpy(&word, data + at, sizeof word);
    word ^= key;
    std::memcpy(data + at, &word, sizeof word);
  };
  std::size_t at = 0;
  for (; at + 32 <= size; at += 32) {
    mask_word(at);
    mask_word(at + 8);
    mask_word(at + 16);
    mask_word(at + 24);
  }
  for (; at < size; ++at) data[at] = static_cast<char>(data[at] ^ turned[at % turned.size()]);
}

FrameHead::FrameHead(Opcode opcode, std::uint64_t payload, std::optional<Mask> mask, bool last) {
  const auto put = [&](unsigned value) { bytes[size++] = static_cast<char>(value); };
  const unsigned masked = mask ? kMaskBit : 0;
  put((last ? kLastBit : 0) | static_cast<unsigned>(opcode));
  if (payload < kLength16) {
    put(masked | static_cast<unsigned>(payload));
  } else {
    const bool small = payload <= 0xffff;
    put(masked | (small ? kLength16 : kLength64));
    for (int shift = small ? 8 : 56; shift >= 0; shift -= 8) put(payload >> shift & 0xff);
  }
  if (mask) {
    for (const char byte : *mask) bytes[size++] = byte;
  }
}

void WebSocketParser::fail(int code, const char* what) {
  if (failure_ != 0) return;
  failure_ = code;
  what_ = what;
}

std::size_t WebSocketParser::parse(std::string_view bytes, Event& event) {
  event.kind = Kind::none;
  std::size_t used = 0;
  while (!over_ && event.kind == Kind::none) {
    const std::string_view rest = bytes.substr(used);
    if (!in_payload_) {
      used += take_head(rest);
    } else {
      used += take_payload(rest);
      if (taken_ == length_) finish_frame(event);
    }
    if (failure_ != 0) {
      event = {Kind::violation, failure_, what_};
      over_ = true;
    } else if (event.kind == Kind::none && used == bytes.size() &&
               !(in_payload_ && taken_ == length_)) {
      break;
    }
  }
  return used;
}

// Collects the head, which may come byte by byte; what is wrong is told as soon as it is seen.
std::size_t WebSocketParser::take_head(std::string_view bytes) {
  std::size_t used = 0;
  while (used < bytes.size() && !in_payload_ && failure_ == 0) {
    head_[head_size_++] = static_cast<std::uint8_t>(bytes[used++]);
    if (head_size_ != head_wanted_) continue;
    if (head_size_ == 2) check_start();
    if (head_size_ == head_wanted_) check_length();
  }
  return used;
}

// The first two bytes of a frame.
void WebSocketParser::check_start() {
  const unsigned opcode = head_[0] & 0x0fu;
  const unsigned length = head_[1] & 0x7fu;
  last_ = (head_[0] & kLastBit) != 0;
  masked_ = (head_[1] & kMaskBit) != 0;
  opcode_ = static_cast<Opcode>(opcode);
  head_wanted_ = 2 + (length == kLength16 ? 2 : length == kLength64 ? 8 : 0) + (masked_ ? 4 : 0);

  if ((head_[0] & kReservedBits) != 0) return fail(kCloseProtocolError, "a reserved bit is set");
  if (!is_opcode(opcode)) return fail(kCloseProtocolError, "an unknown opcode");
  if (masked_ != (sender_ == Sender::client)) {
    return fail(kCloseProtocolError, masked_ ? "a masked frame" : "an unmasked frame");
  }
  if (is_control()) {
    if (!last_) return fail(kCloseProtocolError, "a fragmented control frame");
    if (length > kMaxControl) return fail(kCloseProtocolError, "a large control frame");
  } else if ((opcode_ == Opcode::continuation) != message_opcode_.has_value()) {
    return fail(kCloseProtocolError,
                message_opcode_ ? "a message within a message" : "a continuation of nothing");
  }
}

// The head is complete.
void WebSocketParser::check_length() {
  if (failure_ != 0) return;
  const unsigned first = head_[1] & 0x7fu;
  std::size_t at = 2;
  length_ = first;
  if (first >= kLength16) {
    length_ = 0;
    for (const std::size_t end = at + (first == kLength16 ? 2 : 8); at < end; ++at) {
      length_ = length_ << 8 | head_[at];
    }
    if (length_ >> 63 != 0) return fail(kCloseProtocolError, "a length of 64 bits");
    if (length_ < (first == kLength16 ? kLength16 : 0x10000u)) {
      return fail(kCloseProtocolError, "a length that is not in its shortest form");
    }
  }
  if (masked_) std::memcpy(mask_.data(), head_.data() + at, mask_.size());
  if (!is_control()) {
    if (length_ > limits_.message - message_.size() || fragments_ >= limits_.fragments) {
      return fail(kCloseTooBig, "the message is too large");
    }
    ++fragments_;
    if (!message_opcode_) message_opcode_ = opcode_;
  }
  taken_ = 0;
  in_payload_ = true;
}

// The message grows with what has come, not with what was announced, beyond a first piece.
std::size_t WebSocketParser::take_payload(std::string_view bytes) {
  std::string& target = is_control() ? control_ : message_;
  const std::string_view payload = bytes.substr(
      0, static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), length_ - taken_)));
  if (target.empty()) {
    target.reserve(static_cast<std::size_t>(std::min<std::uint64_t>(length_, kFirstPiece)));
  }
  // Block by block, so that what was copied is still in the cache when it is unmasked.
  for (std::size_t at = 0; at < payload.size(); at += kBlock) {
    const std::string_view block = payload.substr(at, kBlock);
    const std::size_t before = target.size();
    target.append(block);
    if (masked_) apply_mask(target.data() + before, block.size(), mask_, taken_ % mask_.size());
    taken_ += block.size();
  }
  return payload.size();
}

void WebSocketParser::finish_frame(Event& event) {
  in_payload_ = false;
  head_size_ = 0;
  head_wanted_ = 2;
  if (!is_control()) {
    if (last_) finish_message(event);
    return;
  }
  event.data = std::move(control_);
  control_.clear();
  if (opcode_ == Opcode::close) return finish_close(event);
  event.kind = opcode_ == Opcode::ping ? Kind::ping : Kind::pong;
}

void WebSocketParser::finish_message(Event& event) {
  const bool text = *message_opcode_ == Opcode::text;
  if (text && !is_utf8(message_)) return fail(kCloseBadData, "a text that is no UTF-8");
  event.kind = text ? Kind::text : Kind::binary;
  event.data = std::move(message_);
  message_.clear();
  message_opcode_.reset();
  fragments_ = 0;
}

void WebSocketParser::finish_close(Event& event) {
  over_ = true;
  event.kind = Kind::close;
  event.code = kCloseNoCode;
  if (event.data.empty()) return;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(event.data[i]); };
  if (event.data.size() == 1) return fail(kCloseProtocolError, "half a close code");
  event.code = byte(0) << 8 | byte(1);
  event.data.erase(0, 2);
  if (!is_close_code(event.code)) return fail(kCloseProtocolError, "a close code that may not be");
  if (!is_utf8(event.data)) return fail(kCloseBadData, "a close reason that is no UTF-8");
}

}  // namespace tb::http
