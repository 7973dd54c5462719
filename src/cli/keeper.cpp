// SPDX-License-Identifier: Apache-2.0
#include "jail/keeper.h"

#include "cli/commands.h"
#include "cli/engine.h"
#include "registry/registry.h"

namespace tb::cli {

int keeper(const Config& config) {
  jail::KeeperOptions options;
  options.state_dir = config.state_dir;
  options.server_uid = server_uid();
  options.grace = config.keeper_grace;
  const registry::Registry registry = registry::Registry::load(config.registry_dir);
  for (std::string& root : registry.roots()) options.environments.push_back(std::move(root));
  options.environments.push_back(config.environment);
  options.directories = registry.directories();
  options.supervisor = os::Supervisor::of_environment();
  prepare_state(config);
  return jail::run_keeper(options);
}

}  // namespace tb::cli
