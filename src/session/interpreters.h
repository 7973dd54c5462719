// SPDX-License-Identifier: Apache-2.0
// How the interpreters of code/ are told from other processes.
#pragma once

#include <string_view>

namespace tb::session {

// Their tags begin with it. They wait for code as long as their session lives: that they run is no
// use of it.
constexpr std::string_view kInterpreterTag = "threadbox.code";

}  // namespace tb::session
