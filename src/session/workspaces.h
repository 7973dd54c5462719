// SPDX-License-Identifier: Apache-2.0
// Files of threads that outlive their server: kept in a place that all servers of a cluster reach,
// and given to the thread's next sandbox wherever that is.
#pragma once

#include <memory>
#include <optional>

#include "base/async.h"
#include "session/store.h"

namespace tb::session {

struct Session;

class Workspaces {
 public:
  virtual ~Workspaces() = default;
  // Something was done in it: its files are kept soon. Does not wait.
  virtual void changed(const std::shared_ptr<Session>& session) = 0;
  // Puts what was kept of its thread into its new sandbox, which nobody uses yet. When that was
  // kept; empty: nothing was. Throws Error{unavailable} when it can't be known.
  virtual awaitable<std::optional<WallTime>> restore(std::shared_ptr<Session> session) = 0;
  // It has ended for good: nothing of it stays. Does not wait.
  virtual void forget(const Session& session) = 0;
};

}  // namespace tb::session
