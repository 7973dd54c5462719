// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/engine.h"

namespace tb::cli {

int stop(const Config& config) {
  drop_privileges(server_uid());
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
