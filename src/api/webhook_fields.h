// SPDX-License-Identifier: Apache-2.0
// What routes of webhooks and of deliveries have in common.
#pragma once

#include <string>

#include "api/router.h"

namespace tb::api {

// Whose webhooks and deliveries a call is about.
inline const std::string& tenant_of(const Call& call) { return call.principal.tenant; }

}  // namespace tb::api
