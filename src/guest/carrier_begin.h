// SPDX-License-Identifier: Apache-2.0
// How a carrier begins: what the server says first, and the way to it that is shorter.
#pragma once

#include <string>

namespace tb::guest {

// The first frame of stdin, and not a byte more; false: it is none.
bool read_begin(std::string& name, std::string& token);

// True: stdin and stdout are the server's own socket from here on.
bool take_shortcut(const std::string& name, const std::string& token);

}  // namespace tb::guest
