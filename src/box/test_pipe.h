// SPDX-License-Identifier: Apache-2.0
// For tests: a pipe that a command could print into.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string_view>

#include "base/error.h"
#include "os/fd.h"
#include "sandbox/sandbox.h"

namespace tb::box {

struct Pipe {
  os::Fd in;   // the read end
  os::Fd out;  // the write end
  Pipe() {
    int ends[2];
    check(::pipe2(ends, O_CLOEXEC), "pipe2");
    in = os::Fd{ends[0]};
    out = os::Fd{ends[1]};
  }
  void say(std::string_view text) const {
    ASSERT_EQ(::write(out.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
};

inline sandbox::OutputLimits limits(std::uint64_t inline_bytes, std::uint64_t stored) {
  return {.inline_bytes = Bytes{inline_bytes}, .stored = Bytes{stored}};
}

}  // namespace tb::box
