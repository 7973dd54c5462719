// SPDX-License-Identifier: Apache-2.0
// Names of files as clients give them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tb::sandbox {

// The path of a file below the workspace, parts separated by single slashes; nothing for a name
// that is empty, absolute, climbs, is no UTF-8 or too long, whatever kind of dots and slashes it
// uses.
std::optional<std::string> find_workspace_path(std::string_view name);

// The same for a path that may also begin with /workspace or ./ and end with slashes. Empty, . and
// /workspace are the workspace itself: an empty path.
std::optional<std::string> find_path(std::string_view name);

}  // namespace tb::sandbox
