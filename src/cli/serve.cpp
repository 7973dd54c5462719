// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "api/router.h"
#include "api/service.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/docker.h"
#include "cli/engine.h"
#include "cli/hooks.h"
#include "http/listener.h"
#include "http/server.h"
#include "registry/registry.h"
#include "session/sessions.h"
#include "store/sqlite_store.h"

namespace tb::cli {
namespace {

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
          HookFiles files, std::optional<ClusterStart> start)
      : config_(config),
        registry_(registry),
        events_(metrics_, config.log_commands),
        provider_(loop.get_executor(), config.state_dir, config.output),
        docker_(make_docker(loop, config)),
        providers_(providers_of(config, provider_, docker_.get())),
        store_(loop.get_executor(), config.state_dir + "/store/threadbox.db"),
        hooks_(loop.get_executor(), config, store_, metrics_, std::move(files)),
        cluster_(make_cluster(loop, config, std::move(start))),
        sessions_(loop.get_executor(),
                  {providers_, store_, events_, registry, &hooks_.callbacks(),
                   cluster_ ? &cluster_->directory() : nullptr},
                  {pool_settings(config), config.policy, config.session_timeout}),
        service_(service_of(config, sessions_, metrics_)),
        runs_(loop.get_executor()),
        router_(metrics_),
        server_(
            loop.get_executor(), server_limits(),
            [this](http::Exchange& exchange) { return router_.handle(exchange); },
            [](const std::string& where, std::exception_ptr) {
              log(LogLevel::error, "request_failed", {{"where", where}});
            }),
        stop_(loop.get_executor()) {
    router_.set_cors({config.cors_origins});
    api::add_seed_routes(router_, service_);
    api::add_file_routes(router_, service_);
    api::add_upload_routes(router_, service_);
    api::add_file_operation_routes(router_, service_);
    api::add_status_routes(router_, service_);
    api::add_health_routes(router_, service_);
    api::add_process_routes(router_, service_);
    api::add_shell_routes(router_, service_, runs_);
    api::add_session_routes(router_, service_);
    api::add_tool_routes(router_, service_);
    api::add_e2b_routes(router_, service_);
    api::add_registry_routes(router_, service_);
    api::add_metrics_routes(router_, service_);
    metrics_.http_connections.read_by(
        [this] { return static_cast<double>(server_.connections()); });
    service_.hook_rules = hook_rules(config);
    service_.deliveries = &hooks_.deliveries();
    api::add_webhook_routes(router_, service_);
    if (cluster_) service_.directory = &cluster_->directory();
    service_.cluster_secret = config.cluster_secret;
    api::add_cluster_routes(router_, service_);
    api::add_docs_routes(router_);
    provider_.start_ahead(config_.prestart);
    provider_.on_lost([this](bool in_order) {
      if (stopping_) return;
      if (!in_order) {
        log(LogLevel::error, "keeper_lost");
        code_ = 1;  // a supervisor starts us again, and we start a new keeper
      }
      request_stop();
    });
  }

  void request_stop() {
    stopping_ = true;
    stop_.notify_all();
  }

  // The registry as its files are now; if anything is wrong with them, as it was.
  void reload() {
    try {
      registry_ = load_registry(config_);
      sessions_.restock();
      log(LogLevel::info, "registry_reloaded", {{"directory", config_.registry_dir}});
    } catch (const std::exception& error) {
      log(LogLevel::error, "registry_not_reloaded", {{"error", error.what()}});
    }
  }

  awaitable<int> run(int listener) {
    const jail::Welcome welcome = co_await provider_.hello();
    for (const jail::Barrier& row : welcome.barriers) {
      service_.isolation.push_back({row.name, state_name(row.state), row.detail});
    }
    if (!welcome.cleaned.empty()) log(LogLevel::warning, "cleaned_up", {{"what", welcome.cleaned}});
    co_await hooks_.open();
    if (docker_) co_await look_at_docker();
    co_await sessions_.open();
    co_await hooks_.settle();
    if (cluster_) {
      cluster_->open(sessions_, provider_);
    } else {
      const jail::Lease none;
      provider_.keeper().tell(none);
    }
    const std::uint16_t port = http::port_of(listener);
    server_.listen(listener);
    introduce(welcome, port);
    while (!stopping_) co_await stop_.wait();
    co_await server_.close(config_.shutdown_grace);
    if (cluster_) co_await cluster_->close();
    co_await sessions_.close();
    co_await hooks_.close();
    co_await store_.close();
    if (docker_) co_await docker_->close();
    co_await provider_.close();
    co_return code_;
  }

 private:
  static std::unique_ptr<docker::DockerProvider> make_docker(asio::io_context& loop,
                                                             const Config& config) {
    if (!config.docker) return nullptr;
    docker::DockerSettings settings = docker_settings(config);
    return std::make_unique<docker::DockerProvider>(loop.get_executor(), std::move(settings));
  }

  // A server that is up says what is wrong to whoever asks; and an engine may come later.
  awaitable<void> look_at_docker() {
    try {
      co_await docker_->check_usable();
    } catch (const Error& error) {
      log(LogLevel::error, "docker_unusable", {{"error", error.what()}});
    }
  }

  static std::unique_ptr<Cluster> make_cluster(asio::io_context& loop, const Config& config,
                                               std::optional<ClusterStart> start) {
    if (!start) return nullptr;
    return std::make_unique<Cluster>(loop.get_executor(), config, std::move(*start));
  }

  static http::ServerLimits server_limits() {
    http::ServerLimits limits;
    limits.connections_per_address = 1024;  // of 4096: one client can't take them all
    return limits;
  }

  static session::Providers providers_of(const Config& config, sandbox::Provider& native,
                                         docker::DockerProvider* docker) {
    session::Providers providers;
    providers.add(session::kNative, native);
    if (docker) {
      providers.add("docker", *docker, session::Providers::Takes::image,
                    [docker] { return docker->problem(); });
    }
    providers.add_missing("docker",
                          "set SANDBOX_PROVIDER=docker or DOCKER_HOST (docs/providers.md)");
    providers.add_missing("e2b", "this program was built without it");
    for (const auto& [name, instead] : config.provider_aliases) providers.stand_in(name, instead);
    if (!config.provider.empty()) providers.choose_default(config.provider);
    return providers;
  }

  static session::PoolSettings pool_settings(const Config& config) {
    session::PoolSettings settings;
    settings.size = config.pool_size;
    settings.minimum = config.min_pool_size;
    settings.capacity = config.max_pool_size;
    settings.refill_delay = config.pool_refill_delay;
    settings.sweep = config.cleanup_interval;
    if (config.aggressive_cleanup) settings.idle = config.pool_idle;
    settings.kind.environment = config.environment;
    settings.kind.limits = config.limits;
    return settings;
  }

  static api::Service service_of(const Config& config, session::Sessions& sessions,
                                 session::Metrics& metrics) {
    api::Service service{sessions, metrics, config.worker_id, config.environment};
    service.session_timeout = config.session_timeout;
    service.command_timeout = config.command_timeout;
    service.file_limits = {config.max_file_size, config.max_total_files, config.limits.disk};
    service.spools =
        std::make_shared<Spools>(config.state_dir + "/output", config.max_file_size * kSpooled);
    service.policies = config.policies;
    service.origins = config.cors_origins;
    service.aggressive_cleanup = config.aggressive_cleanup;
    return service;
  }

  // Three lines: what runs, how isolated, and something to try.
  void introduce(const jail::Welcome& welcome, std::uint16_t port) const {
    std::string weak;
    for (const jail::Barrier& row : welcome.barriers) {
      if (row.state == 0 || row.name == "host sysctls") continue;
      weak += (weak.empty() ? "" : ", ") + row.name + " " + state_name(row.state);
    }
    const std::string url = "http://" + config_.host + ":" + std::to_string(port);
    std::printf("threadbox %s is running at %s (state in %s)\n", TB_VERSION, url.c_str(),
                config_.state_dir.c_str());
    std::printf("isolation: %s\n", weak.empty() ? "full: every barrier is present"
                                                : (weak + "; see `threadbox doctor`").c_str());
    std::printf("try: curl -s %s/create_session -d '{\"user_id\":\"me\",\"thread_id\":\"t1\"}'\n",
                url.c_str());
    std::fflush(stdout);
  }

  const Config& config_;
  registry::Registry& registry_;
  session::Metrics metrics_;
  session::Events events_;
  native::NativeProvider provider_;
  std::unique_ptr<docker::DockerProvider> docker_;
  session::Providers providers_;
  store::SqliteStore store_;
  Hooks hooks_;
  std::unique_ptr<Cluster> cluster_;
  session::Sessions sessions_;
  api::Service service_;
  shell::Runs runs_;
  api::Router router_;
  http::Server server_;
  Signal stop_;
  bool stopping_ = false;
  int code_ = 0;
};

// Two servers would take each other's sandboxes over.
os::Fd lock_state(const std::string& state_dir) {
  std::filesystem::create_directories(state_dir);
  const std::string path = state_dir + "/server.lock";
  os::Fd lock{check(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), "open " + path)};
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    throw Error{Code::conflict, "a server for " + state_dir +
                                    " is already running: set STATE_DIR to another directory"};
  }
  return lock;
}

std::optional<ClusterStart> start_of_cluster(const Config& config, int listener) {
  if (config.redis_host.empty()) return std::nullopt;
  if (config.docker) {
    // Nobody would end them when the lease has run out and this server is dead.
    throw Error{Code::invalid,
                "REDIS_HOST: containers can't be kept by a lease yet; a worker of a cluster has "
                "native sandboxes only: unset DOCKER_HOST and SANDBOX_PROVIDER"};
  }
  ClusterStart start;
  start.redis = redis_settings(config);
  start.url = config.advertise_url;
  if (start.url.empty()) {
    start.url = "http://" + config.host + ":" + std::to_string(http::port_of(listener));
  }
  return start;
}

void raise_file_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

int serve(const Config& config) {
  set_log(config.log_level, config.log_json);
  raise_file_limit();
  registry::Registry registry = load_registry(config);  // while all files can be read
  const os::Fd lock = lock_state(config.state_dir);
  const int listener = http::bind_listener(config.host, config.port);
  prepare(config, registry.roots());
  HookFiles files = read_hook_files(config);
  std::optional<ClusterStart> start = start_of_cluster(config, listener);
  drop_privileges(server_uid(), groups_for(config));

  asio::io_context loop{1};
  Program program{loop, config, registry, std::move(files), std::move(start)};
  asio::signal_set signals{loop, SIGTERM, SIGINT};
  signals.async_wait([&](boost::system::error_code error, int) {
    if (!error) program.request_stop();
  });
  asio::signal_set hang_up{loop, SIGHUP};
  std::function<void()> await_reload = [&] {
    hang_up.async_wait([&](boost::system::error_code error, int) {
      if (error) return;
      program.reload();
      await_reload();
    });
  };
  await_reload();
  int code = 1;
  std::exception_ptr failure;
  auto task = [&]() -> awaitable<void> {
    code = co_await program.run(listener);
    signals.cancel();
    hang_up.cancel();
  };
  asio::co_spawn(loop, task, [&](std::exception_ptr error) {
    failure = error;
    loop.stop();  // sandboxes are still listened to; they go on without us
  });
  loop.run();
  if (failure) std::rethrow_exception(failure);
  return code;
}

}  // namespace tb::cli
