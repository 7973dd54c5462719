// SPDX-License-Identifier: Apache-2.0
// Ends a wait before what is waited for has come: there is reason to look around.
#pragma once

#include <utility>

#include "base/async.h"

namespace tb {

class Nudge {
 public:
  explicit Nudge(asio::any_io_executor executor) : changed_(executor) {}
  void operator()() {
    due_ = true;
    changed_.notify_all();
  }
  // True: it was nudged since the last time.
  bool take() { return std::exchange(due_, false); }
  awaitable<void> wait() {
    while (!due_) co_await changed_.wait();
  }

 private:
  bool due_ = false;
  Signal changed_;
};

}  // namespace tb
