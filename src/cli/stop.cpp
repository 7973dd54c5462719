// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cstdio>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/engine.h"

namespace tb::cli {

namespace {

// A library that runs as root has a keeper of its own, which listens to nobody else.
unsigned keeper_user(const Config& config) {
  struct stat info{};
  const std::string path = config.state_dir + "/keeper.sock";
  return ::stat(path.c_str(), &info) == 0 ? info.st_uid : server_uid();
}

}  // namespace

int stop(const Config& config) {
  if (const unsigned uid = keeper_user(config); uid != 0) drop_privileges(uid);
  try {
    // The keeper ends its sandboxes and itself; a server that loses its keeper ends too.
    return with_engine(config, [](native::NativeProvider& provider) -> awaitable<int> {
      co_await provider.keeper().stop();
      co_return 0;
    });
  } catch (const Error& error) {
    if (error.code() != Code::unavailable) throw;
    std::printf("nothing runs for %s\n", config.state_dir.c_str());
    return 0;
  }
}

}  // namespace tb::cli
