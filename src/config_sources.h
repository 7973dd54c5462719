// SPDX-License-Identifier: Apache-2.0
// Where settings come from: a file, the environment, the command line; and what came of it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config.h"

namespace tb {

// In the order in which they are read: what a later one says counts.
enum class Origin { standard, file, environment, flag };

struct Given {
  std::string value;
  Origin origin = Origin::standard;
  std::string place = {};  // the line of the file
};
// By name. What is empty is not given: a compose file passes variables that nobody has set.
using GivenSettings = std::map<std::string, Given>;

// `file` is that of --config; empty: that of THREADBOX_CONFIG, or none. `flags`: values by name.
// Throws Error{invalid} that lists everything that is wrong with the file.
GivenSettings gather_settings(const std::string& file = {},
                              const std::map<std::string, std::string>& flags = {});

// Throws Error{invalid} that lists everything that is wrong, at once.
Config read_config(const GivenSettings& given, Role role = Role::worker);

// Only this machine can reach it.
bool is_loopback(const std::string& host);

// "pool-size" of POOL_SIZE; empty for a secret, which everybody could read in a list of processes.
std::string flag_of(const Setting& setting);

struct ShownSetting {
  std::string name;
  std::string value;  // of a secret: only that there is one
  std::string origin;
};
// What holds, of all settings.
std::vector<ShownSetting> show_settings(const Config& config, const GivenSettings& given);

}  // namespace tb
