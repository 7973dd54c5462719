// SPDX-License-Identifier: Apache-2.0
// How many descriptors the server may open, and how many of them connections may take.
#pragma once

#include <cstddef>

#include "config.h"
#include "http/limits.h"

namespace tb::cli {

// As many as the kernel allows; where the rights are there, enough for `connections`.
void raise_file_limit(std::size_t connections);

// Connections of the settings, or fewer where there are not the descriptors for them, which is
// logged: sandboxes and files need some, too.
http::ServerLimits server_limits(const Config& config);

}  // namespace tb::cli
