// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cstdio>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/docker.h"
#include "cli/engine.h"

namespace tb::cli {
namespace {

// A library that runs as root has a keeper of its own, which listens to nobody else.
unsigned keeper_user(const Config& config) {
  struct stat info{};
  const std::string path = config.state_dir + "/keeper.sock";
  return ::stat(path.c_str(), &info) == 0 ? info.st_uid : server_uid();
}

// False: nothing ran.
bool stop_keeper(const Config& config) {
  try {
    // The keeper ends its sandboxes and itself; a server that loses its keeper ends too.
    with_engine(config, [](native::NativeProvider& provider) -> awaitable<int> {
      co_await provider.keeper().stop();
      co_return 0;
    });
    return true;
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    return false;
  }
}

// A server that still runs would make new containers in place of those that are ended.
void wait_for_server(const os::Fd& lock, std::chrono::seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (lock && ::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw Error{Code::unavailable, "the server does not end"};
    }
    ::poll(nullptr, 0, 20);
  }
}

}  // namespace

int stop(const Config& config) {
  const bool docker = config.docker;
  const std::string path = config.state_dir + "/server.lock";
  os::Fd lock;
  if (docker) lock = os::Fd{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
  if (const unsigned uid = keeper_user(config); uid != 0) {
    drop_privileges(uid, groups_for(config));
  }
  const bool ran = stop_keeper(config);
  if (!ran) std::printf("nothing runs for %s\n", config.state_dir.c_str());
  if (!docker) return 0;
  wait_for_server(lock, config.shutdown_grace + std::chrono::seconds{20});
  stop_containers(config);
  return 0;
}

}  // namespace tb::cli
