// SPDX-License-Identifier: Apache-2.0
// The same through a Docker Engine's API, where one answers.
#pragma once

#include "base/async.h"
#include "cli/bench_table.h"
#include "cli/commands.h"

namespace tb::cli {

// Adds no row where no engine answers or it lacks the image.
awaitable<void> docker_rows(BenchTable& table, const BenchOptions& options);

}  // namespace tb::cli
