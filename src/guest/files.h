// SPDX-License-Identifier: Apache-2.0
// The file helper: a child of PID 1 that opens, lists and names files for the server with the
// tenant's rights, so that no trick of the tenant's reaches further than the tenant does.
#pragma once

#include "guest/wire.h"

namespace tb::guest {

// Starts a helper that talks over `socket`, and ends when the other end is closed. -1: errno.
int start_file_helper(const Config& config, int socket);

namespace files {

// Answers requests about the tree below `root`, and of paths that begin with /sandbox about that
// below `sandbox`, until the socket ends.
void serve(int root, int socket, int sandbox = -1);

}  // namespace files
}  // namespace tb::guest
