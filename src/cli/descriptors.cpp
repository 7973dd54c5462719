// SPDX-License-Identifier: Apache-2.0
#include "cli/descriptors.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/log.h"

namespace tb::cli {
namespace {

// For sandboxes, their processes and files, when connections take what they may.
constexpr std::size_t kOthers = 16'384;

std::size_t connections_for(const Config& config) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t most = std::max<std::size_t>(limit.rlim_cur / 4 * 3, 16);
  if (config.max_connections <= most) return config.max_connections;
  log(LogLevel::warning, "connections_limited",
      {{"to", std::to_string(most)},
       {"descriptors", std::to_string(limit.rlim_cur)},
       {"error",
        "raise the limit of open files (LimitNOFILE, ulimit -n), or set MAX_CONNECTIONS"}});
  return most;
}

}  // namespace

void raise_file_limit(std::size_t connections) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlimit wanted{connections + kOthers, connections + kOthers};
  // Beyond the hard limit by those who may, as root.
  if (limit.rlim_max < wanted.rlim_max && ::setrlimit(RLIMIT_NOFILE, &wanted) == 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

http::ServerLimits server_limits(const Config& config) {
  http::ServerLimits limits;
  limits.connections = connections_for(config);
  limits.connections_per_address = config.max_connections_per_address;
  return limits;
}

}  // namespace tb::cli
