// SPDX-License-Identifier: Apache-2.0
// Settings of what guards a server's port: TLS, and how many may use it.
#include "config_guard.h"

#include "base/error.h"
#include "config_rules.h"

namespace tb {
namespace {

using namespace rules;

std::string apply_client_certificates(Config& config, const std::string& value) {
  if (value != "required" && value != "optional") return "must be required or optional";
  config.tls.client_required = value == "required";
  return {};
}

Apply allowance(limits::Allowance Config::* field) {
  return [field](Config& config, const std::string& value) -> std::string {
    try {
      config.*field = limits::parse_allowance(value);
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  };
}

}  // namespace

std::vector<Setting> guard_settings() {
  const auto file = [](std::string TlsConfig::* field) {
    return text([field](Config& c, const std::string& v) { c.tls.*field = v; });
  };
  constexpr std::uint64_t kMost = 1'000'000;
  return {
      {"TLS_CERT_FILE", "(none)", "serve https with this certificate and those above it, in PEM",
       file(&TlsConfig::certificate_file)},
      {"TLS_KEY_FILE", "(none)", "its key, in PEM and without a passphrase",
       file(&TlsConfig::key_file)},
      {"TLS_CLIENT_CA_FILE", "(none)", "ask clients for a certificate of these authorities",
       file(&TlsConfig::client_ca_file)},
      {"TLS_CLIENT_CERTS", "required", "whether they must have one: required, or optional",
       apply_client_certificates},
      {"TLS_HSTS_SECONDS", "31536000", "how long browsers come by https only; 0: they are not told",
       number(0, 63'072'000, [](Config& c, auto v) { c.tls.hsts = std::chrono::seconds{v}; })},
      {"MAX_CONNECTIONS", "16384", "connections at once; beyond: 503",
       number(16, kMost, [](Config& c, auto v) { c.max_connections = v; })},
      {"MAX_CONNECTIONS_PER_ADDRESS", "4096", "of one address, or a /64 of IPv6; 0: as many",
       number(0, kMost, [](Config& c, auto v) { c.max_connections_per_address = v; })},
      {"LIMITS_PER_KEY", "(none)", "of each API key: requests=600/min,sessions=20, …",
       allowance(&Config::key_limits)},
      {"LIMITS_PER_TENANT", "(none)", "the same of each tenant, the default one too",
       allowance(&Config::tenant_limits)},
      {"LIMITS_PER_USER", "(none)", "the same of each user_id", allowance(&Config::user_limits)},
      {"LIMITS_FILE", "(none)", "limits of those who have others",
       text([](Config& c, const std::string& v) { c.limits_file = v; })},
      {"CREATE_WAIT_SECONDS", "0",
       "how long a creation waits for a place of the pool; 0: 503 at once",
       number(0, 3600, [](Config& c, auto v) { c.create_wait = std::chrono::seconds{v}; })},
      {"MAX_CREATE_WAITING", "1000", "creations that wait at once; beyond: 503",
       number(1, kMost, [](Config& c, auto v) { c.create_waiting = v; })},
  };
}

}  // namespace tb
