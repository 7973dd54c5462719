// SPDX-License-Identifier: Apache-2.0
// What is said to PID 1 of a container only (docs/formats/guest.md). No exceptions: the guest
// includes this too.
#pragma once

#include <cstdint>

#include "guest/wire.h"

namespace tb::guest {

// PID 1 ends, and the container with it, when it has heard no lease for `idle_ms` and `grace_ms`
// on top, and takes the files along; without an idle time, when no server was there for `grace_ms`.
struct Lease {
  std::uint64_t idle_ms = 0;  // 0: it is never too long without use
  std::uint64_t grace_ms = 0;

  void encode(Writer& out) const {
    out.u8(static_cast<std::uint8_t>(Message::lease));
    out.u64(idle_ms);
    out.u64(grace_ms);
  }
  static bool decode(Reader& in, Lease& to) {
    to.idle_ms = in.u64();
    to.grace_ms = in.u64();
    return in.done();
  }
};

// `stored` and `dropped`: everything before `offset` of a stream.
struct Taken {
  std::uint32_t id = 0;
  std::uint8_t stream = 0;  // 0: stdout or the terminal, 1: stderr
  std::uint64_t offset = 0;

  void encode(Writer& out, Message type) const {
    out.u8(static_cast<std::uint8_t>(type));
    out.u32(id);
    out.u8(stream);
    out.u64(offset);
  }
  static bool decode(Reader& in, Taken& to) {
    to.id = in.u32();
    to.stream = in.u8();
    to.offset = in.u64();
    return in.done() && to.stream <= 1;
  }
};

}  // namespace tb::guest
