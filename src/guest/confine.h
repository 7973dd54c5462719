// SPDX-License-Identifier: Apache-2.0
// PID 1 gives up what it does not need, and all that its commands must never have.
#pragma once

#include "guest/wire.h"

namespace tb::guest {

// Drops capabilities, locks them out, and puts the guest and all its children under Landlock and
// the base seccomp filter. Returns nullptr, or the name of the step that failed (errno says why).
const char* confine(const Config& config);

// Puts the calling process under one more filter. 0 or -1.
int add_filter(const std::string& program);

}  // namespace tb::guest
