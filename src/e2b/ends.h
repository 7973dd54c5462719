// SPDX-License-Identifier: Apache-2.0
// How a process ended, from E2B's words to ours.
#pragma once

#include "e2b/json.h"
#include "sandbox/sandbox.h"

namespace tb::e2b {

// Of the event {exitCode, exited, status, error}: a signal is told by its name alone, "signal:
// killed".
sandbox::Exit to_exit(const json::object& end);

}  // namespace tb::e2b
