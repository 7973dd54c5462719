// SPDX-License-Identifier: Apache-2.0
// A thread that no signal comes to: they are the loop's business, and its handlers must not run
// elsewhere.
#pragma once

#include <functional>
#include <thread>

namespace tb {

std::thread start_without_signals(std::function<void()> work);

}  // namespace tb
