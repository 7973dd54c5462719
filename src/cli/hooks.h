// SPDX-License-Identifier: Apache-2.0
// All that delivers callbacks, wired together for a server.
#pragma once

#include "api/service.h"
#include "config.h"
#include "hooks/callbacks.h"
#include "hooks/deliveries.h"
#include "hooks/sender.h"
#include "hooks/signing.h"
#include "hooks/webhooks.h"

namespace tb::cli {

net::AddressRules hook_rules(const Config& config);

// What is read while the operator's files can still be read.
struct HookFiles {
  hooks::Secret secret;
  std::string authorities;  // of WEBHOOK_CA_FILE; empty: the system's
};
HookFiles read_hook_files(const Config& config);

class Hooks {
 public:
  Hooks(asio::any_io_executor executor, const Config& config, hooks::Outbox& outbox,
        session::Metrics& metrics, HookFiles files);

  hooks::Callbacks& callbacks() { return callbacks_; }
  // Webhooks hear of what happens, and requests are answered once that is on disk.
  void wire(session::Events& events, api::Router& router, api::Service& service);
  // Takes up what an earlier server left to deliver. Before the sandboxes are found.
  awaitable<void> open();
  // They are: who ended in none of them is lost.
  awaitable<void> settle();
  awaitable<void> close();

 private:
  awaitable<hooks::Attempt> send(hooks::Delivery delivery);

  net::AddressRules rules_;
  hooks::Secret secret_;
  hooks::Sender sender_;
  hooks::Deliveries deliveries_;
  hooks::Callbacks callbacks_;
  hooks::Webhooks webhooks_;
};

}  // namespace tb::cli
