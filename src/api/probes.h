// SPDX-License-Identifier: Apache-2.0
// GET /healthz and GET /readyz, for load balancers and orchestrators.
#pragma once

#include <functional>
#include <string>

#include "api/router.h"

namespace tb::api {

// Says why no work should be sent here now; empty: it may be.
using WhyNotReady = std::function<awaitable<std::string>()>;

void add_probe_routes(Router& router, WhyNotReady why_not);

}  // namespace tb::api
