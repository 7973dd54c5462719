// SPDX-License-Identifier: Apache-2.0
// What the handlers of all dialects work on.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "api/router.h"
#include "base/spool.h"
#include "hooks/deliveries.h"
#include "session/metrics.h"
#include "session/moves.h"
#include "session/sessions.h"
#include "shell/runs.h"
#include "storage/artifacts.h"
#include "storage/session_logs.h"
#include "storage/volumes.h"

namespace tb::hooks {
class Webhooks;
}
namespace tb::audit {
class Log;
}

namespace tb::api {

// How isolated sandboxes are here, row by row; filled from the keeper's words.
struct IsolationRow {
  std::string name;
  std::string state;  // present, degraded, missing
  std::string detail;
};

using FileLimits = sandbox::FileLimits;

struct Service {
  session::Sessions& sessions;
  session::Metrics& metrics;
  std::string worker_id;
  std::string environment;
  std::chrono::minutes session_timeout{30};
  std::chrono::seconds command_timeout{30};
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  std::vector<IsolationRow> isolation = {};
  FileLimits file_limits = {};
  // For uploads that name their session too late.
  std::shared_ptr<Spools> spools = std::make_shared<Spools>("/tmp", 1_GiB);
  std::vector<std::string> policies = {};  // that a client may choose; empty: any
  bool aggressive_cleanup = true;
  std::vector<std::string> origins = {};  // of pages that may open WebSockets, beside our own
  net::AddressRules hook_rules = {};
  hooks::Deliveries* deliveries = nullptr;  // null: nothing is delivered
  hooks::Webhooks* webhooks = nullptr;      // the same
  audit::Log* audit = nullptr;              // null: there is none
  storage::Artifacts* artifacts = nullptr;  // of a server these three are there
  storage::Volumes* volumes = nullptr;
  storage::SessionLogs* logs = nullptr;
  const auth::SessionTokens* tokens = nullptr;
  session::Directory* directory = nullptr;  // null: this server stands alone
  session::Moves* moves = nullptr;          // the same
  std::string cluster_secret = {};
  std::chrono::seconds create_wait{0};  // that a creation waits for a place of the pool
};

// ---- what is the caller's: own.cpp. Nothing else of api/ asks for sessions and artifacts by name,
// so that those of another tenant are as unknown as if there were none. ----
std::shared_ptr<session::Session> find_own_session(const Service& service, const Call& call,
                                                   const std::string& id);
// Null: the thread has none. Throws session::Elsewhere when another server of the cluster has it.
awaitable<std::shared_ptr<session::Session>> find_own_thread(const Service& service,
                                                             const Call& call, std::string thread);
// The one that the path names first. Throws Error{not_found}.
std::shared_ptr<session::Session> get_own_session(const Service& service, const Call& call);
// The oldest first.
std::vector<std::shared_ptr<session::Session>> own_sessions(const Service& service,
                                                            const Call& call);
// Unknown is fine.
awaitable<void> remove_own_session(Service& service, const Call& call, std::string id);
// The events of a session, also of one that has ended; empty: none.
awaitable<std::string> own_log(Service& service, const Call& call, std::string id,
                               std::size_t most);
// The newest first; empty: of any session, of any user.
std::vector<storage::Artifact> own_artifacts(const Service& service, const Call& call,
                                             const std::string& session,
                                             const std::string& user = {});
// The one that the path names. Throws Error{not_found}.
storage::Artifact get_own_artifact(const Service& service, const Call& call);

// Throws HttpError 400 for a command whose end could not be told to whom it names.
void check_notify_url(const Service& service, const sandbox::Command& command);

inline Milliseconds since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - start);
}

// Each adds its routes.
void add_seed_routes(Router& router, Service& service);
void add_file_routes(Router& router, Service& service);
void add_upload_routes(Router& router, Service& service);
void add_file_operation_routes(Router& router, Service& service);
void add_status_routes(Router& router, Service& service);
void add_health_routes(Router& router, Service& service);
void add_process_routes(Router& router, Service& service);
void add_shell_routes(Router& router, Service& service, shell::Runs& runs);
void add_session_routes(Router& router, Service& service);
void add_tool_routes(Router& router, Service& service);
void add_e2b_routes(Router& router, Service& service);
void add_registry_routes(Router& router, Service& service);
void add_volume_routes(Router& router, Service& service);
void add_volume_file_routes(Router& router, Service& service);
void add_artifact_routes(Router& router, Service& service);
void add_metrics_routes(Router& router, Service& service);
void add_delivery_routes(Router& router, Service& service);
void add_webhook_routes(Router& router, Service& service);
void add_cluster_routes(Router& router, Service& service);
void add_audit_routes(Router& router, Service& service);
void add_token_routes(Router& router, Service& service);
void add_docs_routes(Router& router);

}  // namespace tb::api
