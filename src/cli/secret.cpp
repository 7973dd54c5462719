// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "cli/commands.h"
#include "cli/engine.h"

namespace tb::cli {

int secret(const Config& config) {
  set_log(LogLevel::off, false);
  std::printf("%s\n", load_secret(config).text().c_str());
  return 0;
}

}  // namespace tb::cli
