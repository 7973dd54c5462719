// SPDX-License-Identifier: Apache-2.0
// Starts the keeper program where none runs for a state directory.
#pragma once

#include <string>

namespace tb::native {

struct KeeperLaunch {
  std::string state_dir;
  unsigned server_uid = 0;
  unsigned grace_seconds = 600;
  std::string environment = "host";
};

// Returns once a keeper answers; throws Error with its own words when it could not start.
// True: this call started it.
bool ensure_keeper(const KeeperLaunch& launch);

}  // namespace tb::native
