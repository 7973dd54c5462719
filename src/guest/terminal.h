// SPDX-License-Identifier: Apache-2.0
// A terminal of the sandbox's own devpts, which belongs to the tenant.
#pragma once

#include "guest/wire.h"

namespace tb::guest {

struct Terminal {
  int master = -1;  // does not block
  int slave = -1;
};

// Of the size that `start` names. Returns the step that failed, with errno, or nullptr.
const char* open_terminal(const Start& start, const Config& config, Terminal& to);

// In the child, as the leader of a new session: signals typed into the terminal and changes of its
// size reach its jobs from here on. 0, or -1 with errno.
int take_terminal(int slave);

}  // namespace tb::guest
