// SPDX-License-Identifier: Apache-2.0
#include "base/quiet_thread.h"

#include <csignal>

namespace tb {

std::thread start_without_signals(std::function<void()> work) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread{std::move(work)};
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace tb
