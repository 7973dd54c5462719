// SPDX-License-Identifier: Apache-2.0
#include "cli/hooks.h"

#include "api/render.h"
#include "cli/engine.h"
#include "net/tls.h"
#include "os/fd.h"

namespace tb::cli {
namespace {

constexpr std::size_t kMaxAuthorities = 4 << 20;  // bytes

hooks::Sender::Settings sender_settings(const Config& config, std::string authorities) {
  hooks::Sender::Settings settings;
  settings.rules = hook_rules(config);
  settings.dns_servers = config.hook_dns_servers;
  settings.authorities = std::move(authorities);
  return settings;
}

hooks::Deliveries::Settings delivery_settings(const Config& config) {
  hooks::Deliveries::Settings settings;
  if (!config.hook_schedule.empty()) settings.schedule = config.hook_schedule;
  return settings;
}

hooks::Webhooks::Settings webhook_settings(const Config& config) {
  hooks::Webhooks::Settings settings;
  settings.rules = hook_rules(config);
  return settings;
}

hooks::Attempt refused(const char* why) { return {.error = why, .refused = true}; }

}  // namespace

net::AddressRules hook_rules(const Config& config) {
  std::vector<net::Network> networks;
  for (const std::string& text : config.hook_networks) {
    networks.push_back(*net::parse_network(text));
  }
  return {config.hook_allow_private, std::move(networks)};
}

HookFiles read_hook_files(const Config& config) {
  HookFiles files{load_secret(config), {}};
  if (config.hook_ca_file.empty()) return files;
  try {
    files.authorities = os::read_file(config.hook_ca_file, kMaxAuthorities);
    const net::Tls good{files.authorities.empty() ? "nothing" : files.authorities};
  } catch (const Error& error) {
    throw Error{Code::invalid,
                "wrong settings:\n  WEBHOOK_CA_FILE=" + config.hook_ca_file + ": " + error.what()};
  }
  return files;
}

Hooks::Hooks(asio::any_io_executor executor, const Config& config, hooks::Outbox& outbox,
             session::Metrics& metrics, HookFiles files)
    : rules_(hook_rules(config)),
      secret_(std::move(files.secret)),
      sender_(executor, sender_settings(config, std::move(files.authorities))),
      deliveries_(
          executor, outbox, [this](hooks::Delivery delivery) { return send(std::move(delivery)); },
          metrics, delivery_settings(config)),
      callbacks_(executor, deliveries_, api::render_process),
      webhooks_(executor, outbox, deliveries_, metrics, webhook_settings(config)) {}

void Hooks::wire(session::Events& events, api::Router& router, api::Service& service) {
  events.tell(webhooks_);
  router.answer_after([this] { return webhooks_.unsettled(); },
                      [this] { return webhooks_.settle(); });
  service.hook_rules = rules_;
  service.deliveries = &deliveries_;
  service.webhooks = &webhooks_;
}

awaitable<void> Hooks::open() {
  co_await webhooks_.open();
  co_await deliveries_.open();
}

awaitable<void> Hooks::settle() { co_await callbacks_.settle(); }

awaitable<void> Hooks::close() {
  co_await callbacks_.close();
  co_await webhooks_.close();
  co_await deliveries_.close();
}

// What a webhook asked for goes where it says now, signed with its own secret.
awaitable<hooks::Attempt> Hooks::send(hooks::Delivery delivery) {
  std::string keys = secret_.text();
  if (!delivery.webhook.empty()) {
    const hooks::Webhook* webhook = webhooks_.find(delivery.webhook);
    if (!webhook) co_return refused("the webhook was removed");
    if (!webhook->active && delivery.type != hooks::kTestEvent) {
      co_return refused("the webhook is not active: activate it and replay this");
    }
    delivery.url = webhook->url;
    keys = webhook->secret;
  }
  const auto now = std::chrono::system_clock::now();
  const std::int64_t timestamp = std::chrono::system_clock::to_time_t(now);
  std::vector<http::Header> headers;
  headers.push_back({"Content-Type", "application/json"});
  headers.push_back({"User-Agent", "threadbox/" TB_VERSION});
  headers.push_back({"webhook-id", delivery.id});
  headers.push_back({"webhook-timestamp", std::to_string(timestamp)});
  headers.push_back({"webhook-signature",
                     hooks::Secrets::parse(keys).sign(delivery.id, timestamp, delivery.body)});
  headers.push_back({"Connection", "close"});
  co_return co_await sender_.post(delivery.url, std::move(headers), std::move(delivery.body));
}

}  // namespace tb::cli
