// SPDX-License-Identifier: Apache-2.0
// Who may come to a server: what its start must check and say.
#pragma once

#include <string>

#include "auth/authenticator.h"
#include "config.h"

namespace tb::cli {

// Nobody but this machine, unless there are keys to ask for. Throws Error{invalid}; before anything
// is started.
void check_exposure(const Config& config);

// The same of a coordinator, which asks for no keys itself: it passes on what it is shown, and its
// workers ask.
void check_coordinator_exposure(const Config& config);

// A line for whoever starts it.
std::string who_may_come(const Config& config, const auth::Authenticator& guard);

}  // namespace tb::cli
