// SPDX-License-Identifier: Apache-2.0
// The Docker provider as the settings describe it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>

#include "config.h"
#include "docker/provider.h"

namespace tb::cli {

docker::DockerSettings docker_settings(const Config& config);

// Ends all containers of the state directory; files of sessions stay.
void stop_containers(const Config& config);

}  // namespace tb::cli
