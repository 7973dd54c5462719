// SPDX-License-Identifier: Apache-2.0
// Names that nobody can guess.
#pragma once

#include <string>

namespace tb {

// A random UUID (version 4): 122 bits from the kernel.
std::string make_uuid();

}  // namespace tb
