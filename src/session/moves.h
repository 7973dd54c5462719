// SPDX-License-Identifier: Apache-2.0
// Sessions that go from one server of a cluster to another, with their files and their names.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/async.h"

namespace tb::session {

struct Session;

class Moves {
 public:
  virtual ~Moves() = default;

  struct State {
    bool draining = false;
    std::size_t left = 0;   // sessions that are still here
    std::size_t moved = 0;  // since it began
    std::size_t tied = 0;   // of those that are left: have volumes of this server, which stay
    std::string problem;    // why the last one did not move
  };
  // From now on no session begins here, and those that are idle move to other servers.
  virtual void drain() = 0;
  virtual void stop_draining() = 0;
  virtual State state() const = 0;

  // ---- what the servers say to each other ----
  // Makes a sandbox with this name, and gets the files from the server at `from`. Nobody can use it
  // yet; it is dropped again when it does not arrive() soon.
  virtual awaitable<void> expect(std::string session, std::string label, std::string from) = 0;
  // The thread is ours from now on, taken from that life of that server.
  virtual awaitable<void> arrive(std::string session, std::string worker, std::string epoch) = 0;
  // One that is being moved from here. Throws Error{not_found}.
  virtual std::shared_ptr<Session> leaving(const std::string& session) const = 0;
};

}  // namespace tb::session
