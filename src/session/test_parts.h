// SPDX-License-Identifier: Apache-2.0
// For tests: what Sessions needs beside a provider, all of it in memory.
#pragma once

#include <utility>

#include "session/memory_store.h"
#include "session/sessions.h"

namespace tb::session {

struct TestParts {
  MemoryStore store;
  Metrics metrics;
  Events events{metrics};
  registry::Registry registry = registry::Registry::load();

  Providers providers;

  Sessions::Parts with(sandbox::Provider& provider) {
    providers.add(kNative, provider);
    return {providers, store, events, registry};
  }
  // Sandboxes are not confined, unless `policy` says so.
  static Sessions::Settings settings(PoolSettings pool, std::string policy = "open") {
    return {std::move(pool), std::move(policy)};
  }
};

}  // namespace tb::session
