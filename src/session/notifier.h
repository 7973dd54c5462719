// SPDX-License-Identifier: Apache-2.0
// Who tells others of the end of processes that asked for it.
#pragma once

#include <memory>

#include "base/async.h"
#include "session/session.h"

namespace tb::session {

class Notifier {
 public:
  virtual ~Notifier() = default;
  // Tells info().notify_url of the end of `process`, which may have ended already, once; then says
  // Sandbox::notified. Returns when a crash can't lose that somebody waits for it.
  virtual awaitable<void> expect(std::shared_ptr<Session> session,
                                 std::shared_ptr<sandbox::Sandbox> sandbox,
                                 std::shared_ptr<sandbox::Process> process) = 0;
};

}  // namespace tb::session
