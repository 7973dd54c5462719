// SPDX-License-Identifier: Apache-2.0
// The service manager that started us, if it wants to hear from us: sd_notify(3).
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace tb::os {

class Supervisor {
 public:
  Supervisor() = default;  // nobody listens

  // Of NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, which are removed: they are meant for this
  // process, not for those that it starts.
  static Supervisor of_environment();

  // "READY=1" and the like, with line feeds between them. Best effort: nothing depends on it here.
  void tell(std::string_view words) const;

  // How long we may be silent until we are taken for dead; 0: for ever.
  std::chrono::microseconds watchdog() const { return watchdog_; }

 private:
  std::string socket_;
  std::chrono::microseconds watchdog_{0};
};

}  // namespace tb::os
