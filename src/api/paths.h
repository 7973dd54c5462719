// SPDX-License-Identifier: Apache-2.0
// Names of files as clients give them.
#pragma once

#include <string>
#include <string_view>

namespace tb::api {

// A path below the workspace, as it came but for repeated slashes. Throws Refusal 400 "Invalid
// filename" for one that is empty, absolute, not UTF-8, too long, or has a . or .. part. What the
// kernel makes of links is not decided here.
std::string workspace_path(std::string_view name);

}  // namespace tb::api
