// SPDX-License-Identifier: Apache-2.0
// The E2B provider as the settings want it.
#pragma once

#include <memory>
#include <string>

#include "config.h"
#include "e2b/provider.h"

namespace tb::cli {

// What E2B_CA_FILE has, read while the operator's files can still be read, and the other settings
// of E2B are checked. Throws Error{invalid} that names the wrong one.
std::string read_e2b_authorities(const Config& config);

// Null: there is no key.
std::unique_ptr<e2b::E2bProvider> make_e2b(asio::any_io_executor executor, const Config& config,
                                           std::string authorities);

}  // namespace tb::cli
