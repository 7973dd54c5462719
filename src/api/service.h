// SPDX-License-Identifier: Apache-2.0
// What the handlers of all dialects work on.
#pragma once

#include <chrono>
#include <string>

#include "api/router.h"
#include "session/metrics.h"
#include "session/sessions.h"

namespace tb::api {

// How isolated sandboxes are here, row by row; filled from the keeper's words.
struct IsolationRow {
  std::string name;
  std::string state;  // present, degraded, missing
  std::string detail;
};

struct Service {
  session::Sessions& sessions;
  session::Metrics& metrics;
  std::string worker_id;
  std::string environment;
  std::chrono::minutes session_timeout{30};
  std::chrono::seconds command_timeout{30};
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  std::vector<IsolationRow> isolation = {};
};

// Each adds its routes.
void add_seed_routes(Router& router, Service& service);
void add_health_routes(Router& router, Service& service);
void add_process_routes(Router& router, Service& service);
void add_metrics_routes(Router& router, Service& service);
void add_docs_routes(Router& router);

}  // namespace tb::api
