// SPDX-License-Identifier: Apache-2.0
// Bytes for a command to read: its stdin, or a script that is too long for an argument.
#pragma once

#include <string>

namespace tb::guest {

// A file that holds the text, read from its beginning; `confined`: one that can't be executed or
// mapped as a program, as a memfd can. -1: errno says why.
int text_file(const char* name, const std::string& text, bool confined);

// What the command reads as its stdin: /dev/null, a pipe, or a file. Never waits.
int open_input(const std::string& input, bool confined);

}  // namespace tb::guest
