// SPDX-License-Identifier: Apache-2.0
// Writes a file on other threads while its next bytes are on their way.
#pragma once

#include <memory>
#include <string_view>

#include "base/async.h"
#include "os/fd.h"

namespace tb::native {

// Of one loop. Dropped, it leaves what is under way to the pool's threads.
class WriteBehind {
 public:
  WriteBehind(asio::any_io_executor executor, asio::thread_pool& disk, os::Fd file);

  // Keeps a copy, and waits while the disk is too far behind. Returns the errno of what has been
  // written by now, or 0; nothing is written behind what failed.
  awaitable<int> write(std::string_view bytes);
  // Waits until nothing is under way; returns the errno of any of it, or 0.
  awaitable<int> flush();

 private:
  struct Shared;
  static void write_next(std::shared_ptr<Shared> shared, std::string bytes);

  std::shared_ptr<Shared> shared_;
};

}  // namespace tb::native
