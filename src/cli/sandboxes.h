// SPDX-License-Identifier: Apache-2.0
// Who makes sandboxes in this server, as the settings want it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "cli/docker.h"
#include "cli/e2b.h"
#include "native/provider.h"
#include "session/providers.h"

namespace tb::cli {

class Sandboxes {
 public:
  Sandboxes(asio::io_context& loop, const Config& config, std::string e2b_authorities);

  // All but the native provider, which has a keeper to be connected to.
  awaitable<void> open();
  awaitable<void> close();

  native::NativeProvider& native() { return native_; }
  const session::Providers& providers() const { return providers_; }

 private:
  awaitable<void> look_at_docker();

  native::NativeProvider native_;
  std::unique_ptr<docker::DockerProvider> docker_;  // null: not set up
  std::unique_ptr<e2b::E2bProvider> e2b_;           // null: without a key
  session::Providers providers_;
};

}  // namespace tb::cli
