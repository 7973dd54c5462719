// SPDX-License-Identifier: Apache-2.0
// WORKSPACE_STORE, wired together for a server.
#pragma once

#include <memory>

#include "base/metrics.h"
#include "checkpoints/checkpoints.h"
#include "config.h"

namespace tb::cli {

// What is read and made while all may be.
struct CheckpointStart {
  std::string directory;  // empty: a bucket, or nothing
  std::string bucket;     // with what comes before its keys
  std::string prefix;
  std::string authorities;  // PEM; empty: the system's
};

// Throws Error{invalid} for what can't be used.
CheckpointStart prepare_checkpoints(const Config& config);

// Null: nothing is kept.
std::unique_ptr<checkpoints::Checkpoints> make_checkpoints(asio::any_io_executor executor,
                                                           const Config& config,
                                                           CheckpointStart start);

void add_metrics(Registry& registry, const checkpoints::Checkpoints& checkpoints);

}  // namespace tb::cli
