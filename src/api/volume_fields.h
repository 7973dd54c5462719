// SPDX-License-Identifier: Apache-2.0
// Which volume a request names: by its path, and the user of its query.
#pragma once

#include <string>

#include "api/service.h"

namespace tb::api {

// Of the caller's tenant.
storage::Owner owner_of(const Call& call);

// Throws Error{not_found}.
awaitable<storage::Volume> named_volume(Service& service, Call& call);

}  // namespace tb::api
