// SPDX-License-Identifier: Apache-2.0
#include "cli/sandboxes.h"

#include "base/log.h"

namespace tb::cli {
namespace {

using session::Providers;

std::unique_ptr<docker::DockerProvider> make_docker(asio::any_io_executor executor,
                                                    const Config& config) {
  if (!config.docker) return nullptr;
  return std::make_unique<docker::DockerProvider>(executor, docker_settings(config));
}

Providers providers_of(const Config& config, sandbox::Provider& native,
                       docker::DockerProvider* docker, e2b::E2bProvider* e2b) {
  Providers providers;
  providers.add(session::kNative, native);
  providers.add_missing("docker", "set SANDBOX_PROVIDER=docker or DOCKER_HOST (docs/providers.md)");
  if (docker) {
    providers.add("docker", *docker, Providers::Takes::image,
                  [docker] { return docker->problem(); });
  }
  providers.add_missing("e2b", "set E2B_API_KEY to a key of E2B and start the server again");
  if (e2b) {
    providers.add("e2b", *e2b, Providers::Takes::sandbox_template,
                  [e2b] { return e2b->problem(); });
  }
  for (const auto& [name, instead] : config.provider_aliases) providers.stand_in(name, instead);
  if (!config.provider.empty()) providers.choose_default(config.provider);
  return providers;
}

}  // namespace

Sandboxes::Sandboxes(asio::io_context& loop, const Config& config, std::string e2b_authorities)
    : native_(loop.get_executor(), config.state_dir, config.output),
      docker_(make_docker(loop.get_executor(), config)),
      e2b_(make_e2b(loop.get_executor(), config, std::move(e2b_authorities))),
      providers_(providers_of(config, native_, docker_.get(), e2b_.get())) {
  native_.start_ahead(config.prestart);
}

awaitable<void> Sandboxes::open() {
  if (docker_) co_await look_at_docker();
  if (e2b_) e2b_->open();
}

// A server that is up says what is wrong to whoever asks; and an engine may come later.
awaitable<void> Sandboxes::look_at_docker() {
  try {
    co_await docker_->check_usable();
  } catch (const Error& error) {
    log(LogLevel::error, "docker_unusable", {{"error", error.what()}});
  }
}

awaitable<void> Sandboxes::close() {
  if (docker_) co_await docker_->close();
  if (e2b_) co_await e2b_->close();
  co_await native_.close();
}

}  // namespace tb::cli
