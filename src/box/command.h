// SPDX-License-Identifier: Apache-2.0
// From what a caller wants to run to what PID 1 is told, and what is remembered of it.
#pragma once

#include <string>
#include <string_view>

#include "guest/wire.h"
#include "sandbox/sandbox.h"

namespace tb::box {

// Error{invalid}: it can't be run like this.
void validate(const sandbox::Command& command);
void validate(const sandbox::Terminal& terminal);

sandbox::ProcessInfo describe(const sandbox::Command& command);
// NAME=value, each.
std::vector<std::string> environment_of(const sandbox::Command& command);

// `command` was found valid. Its input is left where it is when stdin stays open.
guest::Start to_start(std::uint32_t id, sandbox::Command& command);

// The same of a shell.
guest::Start to_start(std::uint32_t id, const sandbox::ShellSpec& spec,
                      const sandbox::ProcessInfo& info);
sandbox::ProcessInfo describe(const sandbox::ShellSpec& spec);

// A process's info as the guest keeps it for the next server.
std::string to_note(const sandbox::ProcessInfo& info);
bool from_note(std::string_view note, sandbox::ProcessInfo& info);

}  // namespace tb::box
