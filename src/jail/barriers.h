// SPDX-License-Identifier: Apache-2.0
// What isolation this host can give: the rows of `threadbox doctor` and of /health.
#pragma once

#include <vector>

#include "jail/jail.h"
#include "jail/wire.h"

namespace tb::jail {

// With a workshop: what is really in use. Without: what could be.
std::vector<Barrier> examine_host(const Workshop* workshop);

}  // namespace tb::jail
