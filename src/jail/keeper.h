// SPDX-License-Identifier: Apache-2.0
// The privileged program: builds and ends sandboxes for servers that ask over a unix socket.
// Single-threaded; outlives the server; when it dies, so do its sandboxes, and their files stay.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "os/supervisor.h"

namespace tb::jail {

struct KeeperOptions {
  std::string state_dir;
  unsigned server_uid = 0;          // who may connect, beside root
  int ready_fd = -1;                // told "ok" or why not, then closed
  std::chrono::seconds grace{600};  // without any server for so long, it ends
  // Which roots a server may ask for: one that was taken over must not choose any directory.
  std::vector<std::string> environments = {"host"};
  // And which directories of the host may be mounted into sandboxes.
  std::vector<std::string> directories = {};
  bool detach = false;        // become nobody's child first
  bool allow_faults = false;  // tests may ask for failing system calls
  os::Supervisor supervisor;  // told when it is ready and when it stops
};

// Runs until it is told to stop. Returns the exit code.
int run_keeper(const KeeperOptions& options);

std::string keeper_socket(const std::string& state_dir);

}  // namespace tb::jail
