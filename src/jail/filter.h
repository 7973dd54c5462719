// SPDX-License-Identifier: Apache-2.0
// The system calls that a sandbox has: an allow-list made with libseccomp, as BPF programs.
#pragma once

#include <string>

namespace tb::jail {

struct Filters {
  std::string base;              // the allow-list: PID 1 and every command
  std::string values;            // single forbidden argument values, stacked on it
  std::string command;           // what PID 1 may and its commands may not
  std::string confined_command;  // the same where only some programs may be executed
};

// Compiled once when the keeper starts. Each string is an array of sock_filter.
Filters compile_filters();

}  // namespace tb::jail
