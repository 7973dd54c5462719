// SPDX-License-Identifier: Apache-2.0
// Starts the keeper program where none runs for a state directory.
#pragma once

#include <string>
#include <vector>

namespace tb::native {

struct KeeperLaunch {
  std::string state_dir;
  unsigned server_uid = 0;
  unsigned grace_seconds = 600;
  std::vector<std::string> environments;   // beside "host"
  std::vector<std::string> directories;    // of the host, that environments mount
  std::string program = "/proc/self/exe";  // threadbox itself, or where it is
  bool detach = false;  // it becomes nobody's child: our host may wait for children of its own
};

// Returns once a keeper answers; throws Error with its own words when it could not start;
// Error{conflict}: there is one that is about to end.
// True: this call started it.
bool ensure_keeper(const KeeperLaunch& launch);

}  // namespace tb::native
