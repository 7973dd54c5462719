// SPDX-License-Identifier: Apache-2.0
// Settings of what guards a server's port; rows of the table of config.cpp.
#pragma once

#include <vector>

#include "config.h"

namespace tb {

std::vector<Setting> guard_settings();

}  // namespace tb
