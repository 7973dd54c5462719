// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "embed/engine.h"

namespace tb::embed {

std::string default_state_dir() {
  if (::geteuid() == 0) return "/var/lib/threadbox-local";
  if (const char* data = std::getenv("XDG_DATA_HOME"))
    return std::string{data} + "/threadbox-local";
  if (const char* home = std::getenv("HOME")) {
    return std::string{home} + "/.local/share/threadbox-local";
  }
  return "/tmp/threadbox-local-" + std::to_string(::geteuid());
}

Config local_config() {
  Config config;
  config.state_dir = default_state_dir();
  config.worker_id = "local";
  config.pool_size = 1;
  config.min_pool_size = 1;
  config.limits.cpu_quota = 100000;  // one's own machine: a whole core
  config.keeper_grace = std::chrono::seconds{2};
  config.log_level = LogLevel::off;
  return config;
}

void apply(Config& config, const std::vector<std::pair<std::string, std::string>>& values) {
  std::string wrong;
  bool minimum_given = false;
  for (const auto& [name, value] : values) {
    const auto& known = settings();
    const auto row = std::find_if(known.begin(), known.end(),
                                  [&](const Setting& setting) { return setting.name == name; });
    const std::string problem =
        row == known.end() ? "is no setting that there is" : row->apply(config, value);
    if (!problem.empty()) wrong += "\n  " + name + "=" + value + ": " + problem;
    minimum_given = minimum_given || name == "MIN_POOL_SIZE";
  }
  if (!minimum_given) config.min_pool_size = std::min(config.min_pool_size, config.pool_size);
  if (config.min_pool_size > config.pool_size) {
    wrong += "\n  MIN_POOL_SIZE must not be larger than POOL_SIZE";
  }
  if (config.pool_size > config.max_pool_size) {
    wrong += "\n  POOL_SIZE must not be larger than MAX_POOL_SIZE";
  }
  if (!wrong.empty()) throw Error{Code::invalid, "wrong settings:" + wrong};
}

}  // namespace tb::embed
