// SPDX-License-Identifier: Apache-2.0
// Bytes for a command to read: its stdin, or a script that is too long for an argument.
#pragma once

#include <string>

namespace tb::guest {

// A file that holds the text, read from its beginning. -1: errno says why.
int text_file(const char* name, const std::string& text);

// What the command reads as its stdin: /dev/null, a pipe, or a file. Never waits.
int open_input(const std::string& input);

}  // namespace tb::guest
