// SPDX-License-Identifier: Apache-2.0
#include "cli/docker.h"

#include <filesystem>

namespace tb::cli {

docker::DockerSettings docker_settings(const Config& config) {
  docker::DockerSettings settings;
  settings.engine.socket = config.docker_socket;
  settings.engine.image = config.docker_image;
  settings.engine.network = config.docker_network;
  settings.engine.runtime = config.docker_runtime;
  settings.state_dir = config.state_dir;
  settings.output = config.output;
  settings.grace = config.keeper_grace;
  settings.ahead = config.prestart;
  return settings;
}

void stop_containers(const Config& config) {
  if (!std::filesystem::exists(config.state_dir + "/docker")) return;  // no server ever was here
  asio::io_context loop{1};
  docker::DockerProvider provider{loop.get_executor(), docker_settings(config)};
  std::exception_ptr failure;
  auto task = [&]() -> awaitable<void> { co_await provider.stop_all(); };
  asio::co_spawn(loop, task, [&](std::exception_ptr error) { failure = error; });
  loop.run();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tb::cli
