// SPDX-License-Identifier: Apache-2.0
// Routes for code, apart from the others: only they need its room.
#pragma once

#include "api/service.h"
#include "code/contexts.h"

namespace tb::api {

void add_code_routes(Router& router, Service& service, code::Contexts& contexts);

}  // namespace tb::api
