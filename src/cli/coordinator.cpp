// SPDX-License-Identifier: Apache-2.0
#include "cluster/coordinator.h"

#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>

#include "base/error.h"
#include "cli/access.h"
#include "cli/cluster.h"
#include "cli/commands.h"
#include "cli/descriptors.h"
#include "cli/engine.h"
#include "cli/tls.h"
#include "http/listener.h"
#include "http/server.h"

namespace tb::cli {
namespace {

cluster::Fleet::Settings fleet_settings(const Config& config) {
  cluster::Fleet::Settings settings;
  if (config.clustered()) settings.redis = redis_settings(config);
  settings.urls = config.workers;
  settings.lease = config.cluster_lease;
  if (!settings.redis && settings.urls.empty()) {
    throw Error{Code::invalid,
                "a coordinator needs to know its workers: set REDIS_HOST, or WORKERS to a list of "
                "their URLs"};
  }
  return settings;
}

awaitable<void> serve_until(Signal& stop, const bool& stopping, cluster::Fleet& fleet,
                            http::Server& server, int listener, const Config& config,
                            PortTls* tls) {
  co_await fleet.open();
  const std::uint16_t port = http::port_of(listener);
  http::Secure secure;
  if (tls) secure = tls->secure();
  server.listen(listener, std::move(secure));
  std::printf("threadbox %s coordinates at %s://%s:%u\n", TB_VERSION, tls ? "https" : "http",
              config.host.c_str(), static_cast<unsigned>(port));
  std::fflush(stdout);
  while (!stopping) co_await stop.wait();
  co_await server.close(config.shutdown_grace);
  if (tls) co_await tls->close();
  co_await fleet.close();
}

}  // namespace

int coordinator(const Config& config) {
  set_log(config.log_level, config.log_json);
  check_coordinator_exposure(config);
  cluster::Fleet::Settings settings = fleet_settings(config);
  raise_file_limit(config.max_connections);
  const std::unique_ptr<PortTls> tls = PortTls::read(config);
  const int listener = http::bind_listener(config.host, config.port);
  drop_privileges(server_uid());

  asio::io_context loop{1};
  if (tls) tls->watch(loop.get_executor(), nullptr);
  cluster::Fleet fleet{loop.get_executor(), std::move(settings)};
  cluster::Coordinator coordinator{loop.get_executor(), fleet};
  http::Server server{loop.get_executor(), server_limits(config),
                      [&](http::Exchange& exchange) { return coordinator.handle(exchange); },
                      [](const std::string& where, std::exception_ptr failure) {
                        std::string what = "unknown";
                        try {
                          std::rethrow_exception(failure);
                        } catch (const std::exception& error) {
                          what = error.what();
                        }
                        log(LogLevel::error, "request_failed", {{"where", where}, {"error", what}});
                      }};
  Signal stop{loop.get_executor()};
  bool stopping = false;
  asio::signal_set signals{loop, SIGTERM, SIGINT};
  signals.async_wait([&](boost::system::error_code error, int) {
    if (error) return;
    stopping = true;
    stop.notify_all();
  });
  return run_loop(loop, [&]() -> awaitable<int> {
    co_await serve_until(stop, stopping, fleet, server, listener, config, tls.get());
    signals.cancel();
    co_return 0;
  });
}

}  // namespace tb::cli
