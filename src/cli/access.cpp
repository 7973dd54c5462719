// SPDX-License-Identifier: Apache-2.0
#include "cli/access.h"

#include <filesystem>

#include "cli/engine.h"
#include "config_sources.h"

namespace tb::cli {

void check_exposure(const Config& config) {
  if (is_loopback(config.host) || config.allow_no_auth) return;
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

std::string who_may_come(const Config& config, const auth::Authenticator& guard) {
  if (guard.required()) {
    return "access: with one of " + std::to_string(guard.keys()) +
           " API keys (`threadbox keys list`)";
  }
  if (is_loopback(config.host)) {
    return "access: anybody on this machine, and nobody else; `threadbox keys create` makes an API "
           "key, and then nobody without";
  }
  return "access: ANYBODY who reaches this address may run commands (ALLOW_NO_AUTH=1)";
}

}  // namespace tb::cli
