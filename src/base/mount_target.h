// SPDX-License-Identifier: Apache-2.0
// Where in a sandbox something may be mounted. The keeper holds everybody to it; who tells a client
// why not asks the same function.
#pragma once

#include <string>
#include <string_view>

namespace tb {

// What is wrong with it, for people; empty: nothing. Fine are absolute paths without empty, . and
// .. parts that cover nothing that a sandbox is made of. /workspace itself is fine here.
std::string problem_of_target(std::string_view path);

// They are the same, or one is below the other.
bool targets_touch(std::string_view a, std::string_view b);

}  // namespace tb
