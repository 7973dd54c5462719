// SPDX-License-Identifier: Apache-2.0
// When to start a shell ahead of its command.
#pragma once

#include <unistd.h>

#include <cstdint>

#include "guest/wire.h"

namespace tb::guest {

// A shell that is started ahead costs a little more than one that is not. Where the processors have
// more to do than they can, that would be taken from others.
class Processors {
 public:
  Processors();
  // Whether far more want to run than can, right now.
  bool busy() const;

 private:
  int load_;
  int count_;
};

// A shell that waits for no command, only to be copied for each.
struct Original {
  int pid = -1;
  int socket = -1;
  Start like;                  // what it was started for
  std::uint64_t until_us = 0;  // then it has waited for long enough
  bool closed = false;         // it has said that nobody can write to it any more

  Original() = default;
  Original(const Original&) = delete;
  Original& operator=(const Original&) = delete;
  ~Original() {
    if (socket >= 0) ::close(socket);
  }
};

// Whether one's shell is good for the other.
inline bool is_like(const Start& one, const Start& other) {
  return one.cwd == other.cwd && one.env == other.env;
}

}  // namespace tb::guest
