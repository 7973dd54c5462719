// SPDX-License-Identifier: Apache-2.0
// Every number that a server tells Prometheus, by name. Move them through Events where an event
// has a line in the log too.
#pragma once

#include <array>
#include <chrono>
#include <deque>
#include <string>

#include "base/metrics.h"

namespace tb::session {

// How a command ended; the names are values of a label.
enum class CommandOutcome {
  exited0,
  exited_nonzero,
  signal,
  timeout,
  oom,
  killed,
  policy,
  lost,
  not_started,
};
inline constexpr std::array<std::string_view, 9> kOutcomeNames{
    "exited0", "exited_nonzero", "signal", "timeout",    "oom",
    "killed",  "policy",         "lost",   "not_started"};

// Why a command was refused before it ran.
enum class Refused { forbidden, not_allowed, syntax, unresolved, empty };
inline constexpr std::array<std::string_view, 5> kRefusedNames{"forbidden", "not_allowed", "syntax",
                                                               "unresolved", "empty"};

// Of a command that a client sends again because its session had expired.
enum class Retried { success, failure };
inline constexpr std::array<std::string_view, 2> kRetriedNames{"success", "failure"};

// Memory, pids, disk and cpu are the kernel's; they are met while a command runs.
enum class Limit {
  file_size,
  file_count,
  workspace_size,
  pool,
  command_timeout,
  memory,
  pids,
  disk,
  cpu,
};
inline constexpr std::array<std::string_view, 9> kLimitNames{
    "file_size", "file_count", "workspace_size", "pool", "command_timeout",
    "memory",    "pids",       "disk",           "cpu"};

enum class FileAction { upload, download, list };
inline constexpr std::array<std::string_view, 3> kFileActionNames{"upload", "download", "list"};

// What came of an attempt to deliver a callback.
enum class HookResult { delivered, retried, dead, refused };
inline constexpr std::array<std::string_view, 4> kHookResultNames{"delivered", "retried", "dead",
                                                                  "refused"};

// What came of waiting for a place of the pool.
enum class Waited { served, timeout, refused, left };
inline constexpr std::array<std::string_view, 4> kWaitedNames{"served", "timeout", "refused",
                                                              "left"};

// Of what a key, a tenant or a user may have, what was asked for beyond it.
enum class Quota { requests, creations, bytes, sessions, processes };
inline constexpr std::array<std::string_view, 5> kQuotaNames{"requests", "creations", "bytes",
                                                             "sessions", "processes"};

// Of TLS on the server's port.
enum class Handshake { done, failed };
inline constexpr std::array<std::string_view, 2> kHandshakeNames{"done", "failed"};

// The requests of one route. A route is what the program's own table says, never what was asked.
class RouteMetrics {
 public:
  RouteMetrics(Registry& registry, const std::string& method, const std::string& pattern);
  // Status 0: nobody was answered, because the client or the server went away.
  void count(int status, Seconds duration);

 private:
  std::array<Counter*, 6> by_class_{};  // none, 1xx … 5xx
  Histogram& duration_;
};

// A request that is being answered; counted when it ends, however that is.
class CountedRequest {
 public:
  explicit CountedRequest(RouteMetrics* route) : route_(route) {}
  ~CountedRequest();
  CountedRequest(const CountedRequest&) = delete;
  CountedRequest& operator=(const CountedRequest&) = delete;
  int status = 0;

 private:
  RouteMetrics* route_;  // null: nobody counts
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

inline constexpr std::array<double, 9> kLifetimeBounds{60,    300,   900,   1800,  3600,
                                                       14400, 43200, 86400, 604800};
inline constexpr std::array<double, 14> kCommandBounds{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                                       1,     2.5,  5,     10,   30,  60,   300};
inline constexpr std::array<double, 10> kCreateBounds{0.002, 0.005, 0.01, 0.02, 0.05,
                                                      0.1,   0.2,   0.5,  1,    5};

// Stands alone: gauges that others know are read once those others said how (Gauge::read_by).
struct Metrics {
  Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Registers a route; the reference stays valid.
  RouteMetrics& route(const std::string& method, const std::string& pattern);

  Registry registry;

  // Sessions.
  Counter& sessions_created =
      registry.counter("threadbox_sessions_created_total", "Sessions that were created.");
  Counter& sessions_reused = registry.counter(
      "threadbox_sessions_reused_total", "Requests for a session that found the thread's own.");
  Counter& session_creations_failed = registry.counter("threadbox_session_creations_failed_total",
                                                       "Sessions that could not be created.");
  Counter& sessions_expired =
      registry.counter("threadbox_sessions_expired_total", "Sessions that were idle for too long.");
  Counter& sessions_cleaned_up = registry.counter("threadbox_sessions_cleaned_up_total",
                                                  "Sessions that were ended on request.");
  Counter& sessions_lost =
      registry.counter("threadbox_sessions_lost_total",
                       "Sessions whose sandbox died; their files are kept for its revival.");
  Counter& sessions_revived = registry.counter(
      "threadbox_sessions_revived_total", "Sessions that got a new sandbox around their files.");
  Counter& sessions_woken =
      registry.counter("threadbox_sessions_woken_total",
                       "Sessions that were used again after their sandbox was put away.");
  Counter& sessions_adopted = registry.counter("threadbox_sessions_adopted_total",
                                               "Sessions taken over from an earlier server.");
  Gauge& sessions_active = registry.gauge("threadbox_sessions_active", "Sessions that there are.");
  Gauge& sessions_asleep = registry.gauge(
      "threadbox_sessions_asleep", "Those of them whose sandbox is put away until they are used.");
  Gauge& session_reuse_ratio = registry.gauge(
      "threadbox_session_reuse_ratio",
      "Part of the requests for a session since the start that found one; NaN before the first.");
  Histogram& session_lifetime =
      registry.histogram("threadbox_session_lifetime_seconds",
                         "Age of sessions when they expired or were cleaned up.", kLifetimeBounds);

  // Commands.
  CounterSet<CommandOutcome> commands{registry, "threadbox_commands_total",
                                      "Commands that ended, by how they did.", "outcome",
                                      kOutcomeNames};
  Histogram& command_duration =
      registry.histogram("threadbox_command_duration_seconds",
                         "Time from a command's start to its end.", kCommandBounds);
  Gauge& commands_running = registry.gauge("threadbox_commands_running", "Commands that run.");
  CounterSet<Refused> validation_failures{registry, "threadbox_validation_failures_total",
                                          "Commands that the policy refused, by reason.", "reason",
                                          kRefusedNames};
  CounterSet<Retried> auto_retries{registry, "threadbox_auto_retries_total",
                                   "Commands sent again after their session had expired.", "result",
                                   kRetriedNames};
  CounterSet<Limit> limits_exceeded{registry, "threadbox_limits_exceeded_total",
                                    "Limits that were met, by limit.", "limit", kLimitNames};

  // The pool.
  Gauge& pool_available =
      registry.gauge("threadbox_pool_available", "Sandboxes that are ready for a session.");
  Gauge& pool_used = registry.gauge("threadbox_pool_used", "Sandboxes that sessions have.");
  Gauge& pool_capacity = registry.gauge("threadbox_pool_capacity",
                                        "Most sandboxes at a time, ready and in use together.");
  Counter& pool_hits = registry.counter("threadbox_pool_hits_total",
                                        "Sessions that found a ready sandbox in the pool.");
  Counter& pool_misses = registry.counter("threadbox_pool_misses_total",
                                          "Sessions whose sandbox had to be made while they wait.");
  Counter& pool_exhausted = registry.counter("threadbox_pool_exhausted_total",
                                             "Sandboxes refused because the pool is at capacity.");
  CounterSet<Waited> creation_waits{registry, "threadbox_creation_waits_total",
                                    "Creations that waited for a place of the pool, by result.",
                                    "result", kWaitedNames};
  Gauge& creations_waiting =
      registry.gauge("threadbox_creations_waiting", "Creations that wait for a place of the pool.");
  CounterSet<Quota> quotas_exceeded{registry, "threadbox_quota_exceeded_total",
                                    "Answers with 429, by what there was too much of.", "quota",
                                    kQuotaNames};
  Histogram& sandbox_create =
      registry.histogram("threadbox_sandbox_create_duration_seconds",
                         "Time to make a sandbox, for the pool or for a session.", kCreateBounds);
  Counter& sandbox_creations_failed = registry.counter("threadbox_sandbox_creations_failed_total",
                                                       "Sandboxes that could not be made.");

  // Files.
  CounterSet<FileAction> file_operations{registry, "threadbox_file_operations_total",
                                         "Uploads, downloads and listings that succeeded.",
                                         "operation", kFileActionNames};
  CounterSet<FileAction> file_failures{registry, "threadbox_file_failures_total",
                                       "Uploads, downloads and listings that failed.", "operation",
                                       kFileActionNames};
  Counter& uploaded =
      registry.counter("threadbox_uploaded_bytes_total", "Bytes of files received.");
  Counter& downloaded =
      registry.counter("threadbox_downloaded_bytes_total", "Bytes of files sent.");

  // Callbacks.
  CounterSet<HookResult> hooks{registry, "threadbox_webhook_deliveries_total",
                               "Attempts to deliver a callback, by result; retried: it failed and "
                               "is tried again; dead and refused: it is not.",
                               "result", kHookResultNames};
  Gauge& hooks_pending = registry.gauge("threadbox_webhook_pending",
                                        "Callbacks that wait for their delivery or next attempt.");
  Gauge& hooks_pending_bytes =
      registry.gauge("threadbox_webhook_pending_bytes", "Bytes of their bodies, on disk.");
  Gauge& webhooks = registry.gauge("threadbox_webhooks", "Webhooks that are active.");
  Counter& hook_events = registry.counter("threadbox_webhook_events_total",
                                          "Events that were queued for a webhook, for each one.");
  Counter& hook_events_lost =
      registry.counter("threadbox_webhook_events_lost_total",
                       "Events that were not queued: the disk did not take them in time.");

  // HTTP; the routes follow when they are registered.
  Gauge& http_connections =
      registry.gauge("threadbox_http_connections", "HTTP connections that are open.");
  CounterSet<Handshake> tls_handshakes{registry, "threadbox_tls_handshakes_total",
                                       "TLS handshakes that ended, by result.", "result",
                                       kHandshakeNames};
  Gauge& tls_expires =
      registry.gauge("threadbox_tls_certificate_expires_timestamp_seconds",
                     "When the certificate of the server's port ends; 0 without one.");

 private:
  void add_process();

  std::deque<RouteMetrics> routes_;
};

}  // namespace tb::session
