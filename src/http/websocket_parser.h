// SPDX-License-Identifier: Apache-2.0
// Bytes to WebSocket messages (RFC 6455), and the heads of frames to bytes; without sockets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tb::http {

enum class Opcode : std::uint8_t {
  continuation = 0,
  text = 1,
  binary = 2,
  close = 8,
  ping = 9,
  pong = 10,
};

// Close codes that we send (RFC 6455, 7.4.1).
enum CloseCode : int {
  kCloseNormal = 1000,
  kCloseGoingAway = 1001,
  kCloseProtocolError = 1002,
  kCloseUnsupported = 1003,
  kCloseNoCode = 1005,  // Never sent: the peer's close frame was empty.
  kCloseBadData = 1007,
  kClosePolicy = 1008,
  kCloseTooBig = 1009,
  kCloseInternal = 1011,
};

// Whether a close frame may carry this code: those of the RFC and of IANA's registry, and the
// ranges for libraries and applications.
bool is_close_code(int code);

using Mask = std::array<char, 4>;

// XORs `data` with the mask, whose first byte meets the one at `data - offset`.
void apply_mask(char* data, std::size_t size, Mask mask, std::size_t offset = 0);

// The bytes before a frame's payload.
struct FrameHead {
  FrameHead(Opcode opcode, std::uint64_t payload, std::optional<Mask> mask = {}, bool last = true);
  std::string_view view() const { return {bytes.data(), size}; }

  std::array<char, 14> bytes;
  std::size_t size = 0;
};

// Strict: what a peer may not send ends in a violation. Holds no more than the message limit and
// one control frame, whatever comes.
class WebSocketParser {
 public:
  // Who sends what is parsed: clients must mask their frames, servers must not.
  enum class Sender { client, server };
  struct Limits {
    std::size_t message = 1 << 20;
    // Of one message: else frames without a payload could go on for ever.
    std::size_t fragments = 16 << 10;
  };

  enum class Kind { none, text, binary, ping, pong, close, violation };
  // `data`: a whole message, a control frame's payload, a close frame's reason, or what is wrong.
  // `code`: of a close (kCloseNoCode when it had none), or what to answer a violation with.
  struct Event {
    Kind kind = Kind::none;
    int code = 0;
    std::string data;
  };

  WebSocketParser(Sender sender, Limits limits) : limits_(limits), sender_(sender) {}

  // Takes bytes from the front of `bytes` up to the end of the next event, and returns how many.
  // Kind::none: it took all and needs more. After a close or a violation it takes nothing.
  std::size_t parse(std::string_view bytes, Event& event);

 private:
  std::size_t take_head(std::string_view bytes);
  std::size_t take_payload(std::string_view bytes);
  void check_start();
  void check_length();
  void finish_frame(Event& event);
  void finish_message(Event& event);
  void finish_close(Event& event);
  void fail(int code, const char* what);
  bool is_control() const { return opcode_ >= Opcode::close; }

  Limits limits_;
  Sender sender_;
  std::array<std::uint8_t, 14> head_{};
  std::size_t head_size_ = 0;    // What has come of it.
  std::size_t head_wanted_ = 2;  // 2 until those two say how long it is.
  bool in_payload_ = false;
  bool over_ = false;

  // Of the frame:
  Opcode opcode_ = Opcode::continuation;
  bool last_ = false;
  bool masked_ = false;
  Mask mask_{};
  std::uint64_t length_ = 0;
  std::uint64_t taken_ = 0;
  std::string control_;

  // Of the message:
  std::optional<Opcode> message_opcode_;  // Empty between two messages.
  std::string message_;
  std::size_t fragments_ = 0;

  int failure_ = 0;
  const char* what_ = "";
};

}  // namespace tb::http
