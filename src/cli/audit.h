// SPDX-License-Identifier: Apache-2.0
// The audit log of a server, wired to all that tells it something.
#pragma once

#include <memory>

#include "api/router.h"
#include "api/service.h"
#include "api/trail.h"
#include "audit/log.h"
#include "config.h"

namespace tb::cli {

class Audit {
 public:
  // Throws Error when its files can't be written.
  Audit(const Config& config, session::Metrics& metrics);

  void wire(session::Events& events, api::Router& router, api::Service& service);
  // Writes what waits; waits for the disk.
  void close();

 private:
  std::unique_ptr<audit::Log> log_;  // null: it is off
  std::unique_ptr<api::Trail> trail_;
};

}  // namespace tb::cli
