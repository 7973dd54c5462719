// SPDX-License-Identifier: Apache-2.0
// The languages that code can be in, and how their interpreters are started.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sandbox/sandbox.h"

namespace tb::code {

enum class Language { python, javascript, bash };

std::string_view name_of(Language language);
// Also by what others call it: py, js, sh. Throws Error{invalid} that lists those there are.
Language language_named(std::string_view name);
std::vector<std::string> language_names();
// The program that must be in the sandbox.
std::string_view program_of(Language language);

// An interpreter with our driver in it, which waits for requests (code/channel.h). Not for bash,
// whose state sandbox::Shell keeps.
sandbox::Command interpreter(Language language);
std::string tag_of(Language language);
// Whose process it is, if it is one.
std::optional<Language> find_interpreter(const sandbox::ProcessInfo& info);

}  // namespace tb::code
