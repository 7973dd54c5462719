// SPDX-License-Identifier: Apache-2.0
#include "cli/audit.h"

#include "cli/engine.h"

namespace tb::cli {

Audit::Audit(const Config& config, session::Metrics& metrics) {
  if (!config.audit) return;
  audit::Log::Settings settings;
  settings.dir = audit_path(config);
  settings.max_bytes = config.audit_max_bytes;
  settings.keep = config.audit_keep;
  log_ = std::make_unique<audit::Log>(std::move(settings), audit::Redactor{config.audit_redact});
  trail_ = std::make_unique<api::Trail>(*log_);
  metrics.registry.counter_read_by("threadbox_audit_entries_total",
                                   "Lines that were written to the audit log.",
                                   [this] { return static_cast<double>(log_->counts().written); });
  metrics.registry.counter_read_by("threadbox_audit_lost_total",
                                   "Lines that the audit log lacks: the disk did not take them.",
                                   [this] { return static_cast<double>(log_->counts().lost); });
}

void Audit::wire(session::Events& events, api::Router& router, api::Service& service) {
  if (!log_) return;
  events.tell(*trail_);
  router.set_recorder(*trail_);
  service.audit = log_.get();
}

void Audit::close() {
  if (log_) log_->close();
}

}  // namespace tb::cli
