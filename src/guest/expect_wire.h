// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "guest/wire.h"

namespace tb::guest {

// A command is to come: a shell is started ahead of it.
struct Expect {
  std::uint32_t ahead_ms = 0;  // as Start::ahead_ms
  std::string cwd;
  std::vector<std::string> env;

  void encode(Writer& out) const {
    out.u8(static_cast<std::uint8_t>(Message::expect));
    out.u32(ahead_ms);
    out.bytes(cwd);
    out.list(env);
  }
  static bool decode(Reader& in, Expect& to) {
    to.ahead_ms = in.u32();
    to.cwd = in.bytes();
    to.env = in.list();
    return in.done();
  }
};

}  // namespace tb::guest
