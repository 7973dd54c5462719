// SPDX-License-Identifier: Apache-2.0
#include "cli/access.h"

#include <filesystem>

#include "cli/engine.h"
#include "config_sources.h"
#include "os/fd.h"

namespace tb::cli {
namespace {

constexpr std::size_t kMaxAuthorities = 4 << 20;  // bytes

}  // namespace

void check_exposure(const Config& config) {
  if (is_loopback(config.host) || config.allow_no_auth || config.jwt.any()) return;
  const std::string path = keys_path(config);
  if (std::filesystem::exists(path) && auth::KeyTable{path}.any()) return;
  throw Error{Code::invalid, "wrong settings:\n  HOST=" + config.host +
                                 ": anybody who reaches this address could run commands; make an "
                                 "API key (`threadbox keys create`), or set ALLOW_NO_AUTH=1 if "
                                 "that is meant"};
}

void check_coordinator_exposure(const Config& config) {
  if (is_loopback(config.host) || config.allow_no_auth) return;
  throw Error{Code::invalid, "wrong settings:\n  HOST=" + config.host +
                                 ": a coordinator lets everybody through to its workers; set "
                                 "ALLOW_NO_AUTH=1 if they ask for API keys, or if that is meant"};
}

auth::Authenticator::Settings authentication_settings(const Config& config) {
  auth::Authenticator::Settings settings{keys_path(config),
                                         config.state_dir + "/auth/token.secret"};
  const JwtConfig& jwt = config.jwt;
  if (!jwt.any()) return settings;
  auth::JwtSettings tokens;
  tokens.keys = {jwt.secret, jwt.jwks_file, jwt.jwks_url, {}};
  if (!jwt.ca_file.empty()) tokens.keys.authorities = os::read_file(jwt.ca_file, kMaxAuthorities);
  tokens.rules = {jwt.issuer, jwt.audience, jwt.leeway, jwt.tenant_claim, jwt.role_claim};
  if (jwt.tenant_claim == "none") tokens.rules.tenant_claim.clear();
  settings.jwt = std::move(tokens);
  return settings;
}

std::string who_may_come(const Config& config, const auth::Authenticator& guard) {
  if (guard.required()) {
    std::string who =
        "access: with one of " + std::to_string(guard.keys()) + " API keys (`threadbox keys list`)";
    return guard.issuer().empty() ? who : who + ", or with a token of " + guard.issuer();
  }
  if (is_loopback(config.host)) {
    return "access: anybody on this machine, and nobody else; `threadbox keys create` makes an API "
           "key, and then nobody without";
  }
  return "access: ANYBODY who reaches this address may run commands (ALLOW_NO_AUTH=1)";
}

}  // namespace tb::cli
