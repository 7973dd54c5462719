// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>

#include <csignal>
#include <cstdio>
#include <filesystem>

#include "api/code.h"
#include "api/probes.h"
#include "api/router.h"
#include "api/service.h"
#include "cli/access.h"
#include "cli/audit.h"
#include "cli/checkpoints.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/descriptors.h"
#include "cli/engine.h"
#include "cli/hooks.h"
#include "cli/limits.h"
#include "cli/sandboxes.h"
#include "cli/tls.h"
#include "cli/watching.h"
#include "config_sources.h"
#include "http/listener.h"
#include "http/server.h"
#include "registry/registry.h"
#include "session/sessions.h"
#include "storage/artifacts.h"
#include "storage/session_logs.h"
#include "storage/volumes.h"
#include "store/sqlite_store.h"

namespace tb::cli {
namespace {

constexpr auto kKeeperPatience = 2s;   // until one that says nothing is away
constexpr std::uint64_t kSpooled = 8;  // of the largest uploads may wait for their session's name

const char* state_name(std::uint8_t state) {
  constexpr const char* kNames[] = {"present", "degraded", "missing"};
  return kNames[std::min<std::uint8_t>(state, 2)];
}

// Throws Error{invalid} with all that is wrong.
registry::Registry load_registry(const Config& config) {
  registry::Registry registry = registry::Registry::load(config.registry_dir);
  const std::string known = registry::join_names(registry.policies().names());
  std::string wrong;
  const auto require = [&](const char* setting, const std::string& name) {
    if (registry.policies().find(name)) return;
    wrong +=
        std::string{"\n  "} + setting + ": there is no policy \"" + name + "\", there are " + known;
  };
  require("DEFAULT_POLICY", config.policy);
  for (const std::string& name : config.policies) require("ALLOWED_POLICIES", name);
  if (!wrong.empty()) throw Error{Code::invalid, "wrong settings:" + wrong};
  return registry;
}

// Everything that makes up a server, in the order in which a request travels.
class Program {
 public:
  Program(asio::io_context& loop, const Config& config, registry::Registry& registry,
          const os::Supervisor& supervisor, HookFiles files, std::string e2b_authorities,
          std::optional<ClusterStart> start, PortTls* tls, auth::Authenticator& guard,
          ServerQuotas& quotas, CheckpointStart kept)
      : config_(config),
        tls_(tls),
        quotas_(quotas),
        registry_(registry),
        supervisor_(supervisor),
        events_(metrics_, config.log_commands),
        sandboxes_(loop, config, std::move(e2b_authorities)),
        provider_(sandboxes_.native()),
        store_(loop.get_executor(), config.state_dir + "/store/threadbox.db"),
        hooks_(loop.get_executor(), config, store_, metrics_, std::move(files)),
        artifacts_(loop.get_executor(), storage_path(config) + "/artifacts",
                   {.per_session = config.artifact_session,
                    .in_all = config.artifact_total,
                    .age = config.artifact_age}),
        logs_(storage_path(config) + "/sessions",
              {.per_session = config.session_log, .age = config.session_log_age}),
        volumes_(loop.get_executor(), provider_,
                 {config.volume_size, config.max_volume_size, config.max_volumes},
                 config.environment),
        cluster_(make_cluster(loop, config, std::move(start))),
        checkpoints_(make_checkpoints(loop.get_executor(), config, std::move(kept))),
        sessions_(loop.get_executor(),
                  {sandboxes_.providers(), store_, events_, registry, &hooks_.callbacks(),
                   &volumes_, &logs_, cluster_ ? &cluster_->directory() : nullptr,
                   checkpoints_.get(), &quotas_.limits()},
                  {pool_settings(config), config.policy, config.session_timeout, config.sleep}),
        service_(service_of(config, sessions_, metrics_)),
        runs_(loop.get_executor()),
        contexts_(loop.get_executor(), sessions_, runs_, {config.output.inline_bytes}),
        guard_(guard),
        audit_(config, metrics_),
        router_(metrics_),
        server_(
            loop.get_executor(), server_limits(config),
            [this](http::Exchange& exchange) { return router_.handle(exchange); },
            [](const std::string& where, std::exception_ptr) {
              log(LogLevel::error, "request_failed", {{"where", where}});
            }),
        keeper_watch_(loop.get_executor(), provider_),
        heartbeat_(loop.get_executor(), supervisor),
        key_watch_(loop.get_executor(), router_),
        stop_(loop.get_executor()) {
    events_.keep_in(logs_);
    complete_service();
    add_routes();
    if (tls_) tls_->watch(loop.get_executor(), &metrics_);
    metrics_.http_connections.read_by(
        [this] { return static_cast<double>(server_.connections()); });
    provider_.on_lost([this](bool in_order) { keeper_lost(in_order); });
  }

  void request_stop() {
    stopping_ = true;
    stop_.notify_all();
  }

  // The registry, the certificate and the limits as their files are now; if anything is wrong with
  // them, as they were.
  void reload() {
    if (tls_) tls_->reload();
    quotas_.reload();
    try {
      registry_ = load_registry(config_);
      sessions_.restock();
      log(LogLevel::info, "registry_reloaded", {{"directory", config_.registry_dir}});
    } catch (const std::exception& error) {
      log(LogLevel::error, "registry_not_reloaded", {{"error", error.what()}});
    }
  }

  // All that is worth a line, or what the settings say.
  void set_verbose(bool verbose) const {
    set_log(verbose ? LogLevel::debug : config_.log_level, config_.log_json);
    log(LogLevel::warning, "log_level_changed", {{"to", verbose ? "debug" : "LOG_LEVEL"}});
  }

  awaitable<int> run(int listener) {
    const jail::Welcome welcome = co_await provider_.hello();
    for (const jail::Barrier& row : welcome.barriers) {
      service_.isolation.push_back({row.name, state_name(row.state), row.detail});
      if (row.state == 2)
        log(LogLevel::warning, "barrier_missing", {{"barrier", row.name}, {"why", row.detail}});
    }
    if (!welcome.cleaned.empty()) log(LogLevel::warning, "cleaned_up", {{"what", welcome.cleaned}});
    co_await hooks_.open();
    co_await sandboxes_.open();
    if (cluster_) cluster_->share(quotas_.limits());
    co_await sessions_.open();
    co_await hooks_.settle();
    artifacts_.open();
    co_await logs_.sweep();
    if (cluster_) {
      cluster_->open(sessions_, provider_);
      service_.moves = &cluster_->moves();
    } else {
      const jail::Lease none;
      provider_.keeper().tell(none);
    }
    if (checkpoints_) checkpoints_->open(sessions_);
    const std::uint16_t port = http::port_of(listener);
    guard_.open();
    if (tls_) {
      server_.listen(listener, tls_->secure());
    } else {
      server_.listen(listener);
    }
    introduce(welcome, port);
    supervisor_.tell("READY=1");
    while (!stopping_) co_await stop_.wait();
    supervisor_.tell("STOPPING=1");
    co_await server_.close(config_.shutdown_grace);
    if (checkpoints_) co_await checkpoints_->close();
    if (cluster_) co_await cluster_->close();
    if (tls_) co_await tls_->close();
    co_await guard_.close();
    co_await volumes_.close();
    co_await artifacts_.close();
    co_await sessions_.close();
    co_await hooks_.close();
    co_await store_.close();
    co_await keeper_watch_.close();
    co_await sandboxes_.close();
    co_await heartbeat_.close();
    co_await key_watch_.close();
    audit_.close();
    co_return code_;
  }

 private:
  void keeper_lost(bool in_order) {
    if (stopping_) return;
    if (!in_order) {
      log(LogLevel::error, "keeper_lost");
      code_ = 1;  // a supervisor starts us again, and we start a new keeper
    }
    request_stop();
  }

  void complete_service() {
    service_.artifacts = &artifacts_;
    service_.volumes = &volumes_;
    service_.logs = &logs_;
    if (cluster_) service_.directory = &cluster_->directory();
    service_.cluster_secret = config_.cluster_secret;
    if (cluster_) cluster_->add_metrics(metrics_.registry);
    if (checkpoints_) add_metrics(metrics_.registry, *checkpoints_);
  }

  void add_routes() {
    router_.set_cors({config_.cors_origins});
    router_.set_guard(guard_, is_loopback(config_.host) && !config_.allow_no_auth);
    hooks_.wire(events_, router_, service_);
    audit_.wire(events_, router_, service_);
    service_.tokens = &guard_.tokens();
    router_.set_limits(quotas_.limits());
    quotas_.count_in(metrics_);
    api::add_seed_routes(router_, service_);
    api::add_file_routes(router_, service_);
    api::add_upload_routes(router_, service_);
    api::add_file_operation_routes(router_, service_);
    api::add_status_routes(router_, service_);
    api::add_health_routes(router_, service_);
    api::add_probe_routes(router_, [this] { return why_not_ready(); });
    api::add_process_routes(router_, service_);
    api::add_shell_routes(router_, service_, runs_);
    api::add_code_routes(router_, service_, contexts_);
    api::add_session_routes(router_, service_);
    api::add_tool_routes(router_, service_);
    api::add_e2b_routes(router_, service_);
    api::add_registry_routes(router_, service_);
    api::add_volume_routes(router_, service_);
    api::add_volume_file_routes(router_, service_);
    api::add_artifact_routes(router_, service_);
    api::add_metrics_routes(router_, service_);
    api::add_delivery_routes(router_, service_);
    api::add_webhook_routes(router_, service_);
    api::add_cluster_routes(router_, service_);
    api::add_audit_routes(router_, service_);
    api::add_token_routes(router_, service_);
    api::add_docs_routes(router_);
  }

  awaitable<std::string> why_not_ready() {
    if (stopping_) co_return "the server is stopping";
    const bool answers = co_await keeper_watch_.answers(kKeeperPatience);
    co_return answers ? "" : "the keeper does not answer";
  }

  static std::unique_ptr<Cluster> make_cluster(asio::io_context& loop, const Config& config,
                                               std::optional<ClusterStart> start) {
    if (!start) return nullptr;
    return std::make_unique<Cluster>(loop.get_executor(), config, std::move(*start));
  }

  static session::PoolSettings pool_settings(const Config& config) {
    session::PoolSettings settings;
    settings.size = config.pool_size;
    settings.minimum = config.min_pool_size;
    settings.capacity = config.max_pool_size;
    settings.waiting = config.create_waiting;
    settings.refill_delay = config.pool_refill_delay;
    settings.sweep = config.cleanup_interval;
    if (config.aggressive_cleanup) settings.idle = config.pool_idle;
    settings.kind.environment = config.environment;
    settings.kind.limits = config.limits;
    settings.kind.warm = config.warm;
    settings.warm = code::Contexts::warm;
    return settings;
  }

  static api::Service service_of(const Config& config, session::Sessions& sessions,
                                 session::Metrics& metrics) {
    api::Service service{sessions, metrics, config.worker_id, config.environment};
    service.session_timeout = config.session_timeout;
    service.create_wait = config.create_wait;
    service.command_timeout = config.command_timeout;
    service.file_limits = {config.max_file_size, config.max_total_files, config.limits.disk};
    service.spools =
        std::make_shared<Spools>(config.state_dir + "/output", config.max_file_size * kSpooled);
    service.policies = config.policies;
    service.origins = config.cors_origins;
    service.aggressive_cleanup = config.aggressive_cleanup;
    return service;
  }

  // Four lines: what runs, how isolated, for whom, and something to try.
  void introduce(const jail::Welcome& welcome, std::uint16_t port) const {
    std::string weak;
    for (const jail::Barrier& row : welcome.barriers) {
      if (row.state == 0 || row.name == "host sysctls") continue;
      weak += (weak.empty() ? "" : ", ") + row.name + " " + state_name(row.state);
    }
    const std::string url =
        (tls_ ? "https://" : "http://") + config_.host + ":" + std::to_string(port);
    std::printf("threadbox %s is running at %s (state in %s)\n", TB_VERSION, url.c_str(),
                config_.state_dir.c_str());
    std::printf("isolation: %s\n", weak.empty() ? "full: every barrier is present"
                                                : (weak + "; see `threadbox doctor`").c_str());
    std::printf("%s\n", who_may_come(config_, guard_).c_str());
    std::printf("try: curl -s %s%s/create_session -d '{\"user_id\":\"me\",\"thread_id\":\"t1\"}'\n",
                guard_.required() ? "-H \"Authorization: Bearer $KEY\" " : "", url.c_str());
    std::fflush(stdout);
  }

  const Config& config_;
  PortTls* tls_;  // null: plain HTTP
  ServerQuotas& quotas_;
  registry::Registry& registry_;
  const os::Supervisor& supervisor_;
  session::Metrics metrics_;
  session::Events events_;
  Sandboxes sandboxes_;
  native::NativeProvider& provider_;  // of them
  store::SqliteStore store_;
  Hooks hooks_;
  storage::Artifacts artifacts_;
  storage::SessionLogs logs_;
  storage::Volumes volumes_;
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<checkpoints::Checkpoints> checkpoints_;  // null: files go with this server
  session::Sessions sessions_;
  api::Service service_;
  shell::Runs runs_;
  code::Contexts contexts_;
  auth::Authenticator& guard_;
  Audit audit_;
  api::Router router_;
  http::Server server_;
  KeeperWatch keeper_watch_;
  Heartbeat heartbeat_;
  KeyWatch key_watch_;
  Signal stop_;
  bool stopping_ = false;
  int code_ = 0;
};

}  // namespace

int serve(const Config& config) {
  const os::Supervisor supervisor = os::Supervisor::of_environment();
  set_log(config.log_level, config.log_json);
  raise_file_limit(config.max_connections);
  check_cluster(config);
  CheckpointStart kept = prepare_checkpoints(config);
  registry::Registry registry = load_registry(config);  // while all files can be read
  check_exposure(config);
  const std::unique_ptr<PortTls> tls = PortTls::read(config);
  ServerQuotas quotas{config};
  const os::Fd lock = lock_state(config.state_dir);
  const int listener = http::bind_listener(config.host, config.port);
  prepare(config, registry.roots(), registry.directories());
  HookFiles files = read_hook_files(config);
  std::string e2b_authorities = read_e2b_authorities(config);
  std::optional<ClusterStart> start = start_of_cluster(config, listener);
  auth::Authenticator::Settings guarding = authentication_settings(config);
  drop_privileges(server_uid(), groups_for(config));

  asio::io_context loop{1};
  auth::Authenticator guard{loop.get_executor(), std::move(guarding)};
  Program program{loop,
                  config,
                  registry,
                  supervisor,
                  std::move(files),
                  std::move(e2b_authorities),
                  std::move(start),
                  tls.get(),
                  guard,
                  quotas,
                  std::move(kept)};
  Signals signals{loop};
  for (const int end : {SIGTERM, SIGINT}) signals.on(end, [&] { program.request_stop(); });
  signals.on(SIGHUP, [&] { program.reload(); });
  signals.on(SIGUSR1, [&] { program.set_verbose(true); });
  signals.on(SIGUSR2, [&] { program.set_verbose(false); });
  // Sandboxes are still listened to when it ends; they go on without us.
  return run_loop(loop, [&]() -> awaitable<int> {
    const int code = co_await program.run(listener);
    signals.cancel();
    co_return code;
  });
}

}  // namespace tb::cli
