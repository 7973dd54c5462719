// SPDX-License-Identifier: Apache-2.0
// Settings: environment variables under the names that their users know, read once at the start.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "sandbox/sandbox.h"

namespace tb {

struct Config {
  std::string host = "127.0.0.1";
  std::uint16_t port = 5000;
  bool allow_no_auth = false;
  std::string state_dir;
  std::string worker_id = "standalone";
  std::string environment = "host";
  std::size_t pool_size = 10;
  std::size_t max_pool_size = 80;
  sandbox::Limits limits;
  sandbox::OutputLimits output;
  std::chrono::minutes session_timeout{30};
  std::chrono::seconds command_timeout{30};
  std::chrono::seconds keeper_grace{600};
  LogLevel log_level = LogLevel::info;
  bool log_json = false;
};

// One row of the table: shown by `threadbox serve --help` and docs/operating.md.
struct Setting {
  std::string name;
  std::string shown_default;
  std::string meaning;
  // Returns what is wrong with the value, or nothing.
  std::function<std::string(Config&, const std::string&)> apply;
};
const std::vector<Setting>& settings();

// Reads the environment. Throws Error{invalid} that lists everything that is wrong, at once.
Config read_config();

}  // namespace tb
