// SPDX-License-Identifier: Apache-2.0
// Settings under the names that their users know, read once at the start (config_sources.h).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/units.h"
#include "limits/allowance.h"
#include "sandbox/sandbox.h"

namespace tb {

// Sandboxes of an E2B cloud; without a key there are none.
struct E2bConfig {
  std::string key;
  std::string api_url;      // empty: api. and the domain
  std::string sandbox_url;  // empty: by the domain
  std::string domain = "e2b.app";
  std::string sandbox_template = "base";
  std::string ca_file;  // empty: the system's
};

// https on the server's port; without a certificate it is http.
struct TlsConfig {
  std::string certificate_file;
  std::string key_file;
  std::string client_ca_file;
  bool client_required = true;
  std::chrono::seconds hsts{31'536'000};
};

// Tokens of an identity provider; without a key to check them there are none.
struct JwtConfig {
  std::string secret;  // of HS256
  std::string jwks_file;
  std::string jwks_url;
  std::string ca_file;  // empty: the system's
  std::string issuer;
  std::string audience;
  std::chrono::seconds leeway{60};
  std::string tenant_claim = "tenant";  // "none": all are the default tenant's
  std::string role_claim = "role";
  bool any() const { return !secret.empty() || !jwks_file.empty() || !jwks_url.empty(); }
};

// Files of threads that outlive their server.
struct CheckpointConfig {
  std::string store;  // a directory, or s3://bucket/prefix; empty: none are kept
  std::chrono::seconds delay{2};
  std::string endpoint;  // empty: Amazon's
  std::string region = "us-east-1";
  std::string key_id;
  std::string secret;
  std::string ca_file;  // empty: the system's
};

struct Config {
  std::string host = "127.0.0.1";
  std::uint16_t port = 5000;
  bool allow_no_auth = false;
  TlsConfig tls;
  std::size_t max_connections = 16'384;
  std::size_t max_connections_per_address = 4096;  // 0: no such limit
  limits::Allowance key_limits;
  limits::Allowance tenant_limits;
  limits::Allowance user_limits;
  std::string limits_file;              // of those who have others; empty: nobody
  std::chrono::seconds create_wait{0};  // for a place of the pool; 0: not at all
  std::size_t create_waiting = 1000;
  std::string state_dir;
  std::string worker_id = "standalone";
  std::string environment = "host";
  bool docker = false;  // there are to be containers
  std::string docker_socket = "/var/run/docker.sock";
  std::string docker_image = "sandbox-secure:latest";
  std::string docker_network = "none";
  std::string docker_runtime;
  std::size_t pool_size = 10;
  std::size_t min_pool_size = 3;
  std::size_t max_pool_size = 80;
  std::chrono::seconds pool_refill_delay{60};
  std::chrono::minutes pool_idle{5};
  std::chrono::seconds cleanup_interval{300};
  bool aggressive_cleanup = true;
  sandbox::Limits limits;
  sandbox::OutputLimits output;
  Bytes max_file_size = 100_MiB;
  std::uint64_t max_total_files = 1000;
  std::string policy = "strict";
  std::vector<std::string> policies;  // that clients may choose; empty: all
  std::vector<std::string> warm;      // languages whose interpreters wait in ready sandboxes
  std::string registry_dir;
  std::string provider;  // the default; empty: native
  // Who asks for the first gets the second, where the first is not set up.
  std::vector<std::pair<std::string, std::string>> provider_aliases = {{"docker", "native"},
                                                                       {"e2b", "native"}};
  E2bConfig e2b;
  JwtConfig jwt;
  std::vector<std::string> cors_origins;
  std::string storage_path;  // empty: storage in the state directory
  Bytes artifact_session = 256_MiB;
  Bytes artifact_total = 10_GiB;
  std::chrono::hours artifact_age{30 * 24};
  Bytes session_log = 1_MiB;
  std::chrono::hours session_log_age{30 * 24};
  Bytes volume_size = 1_GiB;
  Bytes max_volume_size = 10_GiB;
  std::size_t max_volumes = 32;
  std::chrono::minutes session_timeout{30};
  std::chrono::seconds command_timeout{30};
  std::chrono::seconds prestart{30};
  std::chrono::seconds sleep{60};
  std::chrono::seconds keeper_grace{600};
  std::chrono::seconds shutdown_grace{10};
  LogLevel log_level = LogLevel::info;
  bool log_json = false;
  bool log_commands = true;
  bool audit = true;
  std::string audit_dir;  // empty: in the state directory
  Bytes audit_max_bytes = 64_MiB;
  unsigned audit_keep = 10;
  std::vector<std::string> audit_redact;  // expressions
  std::string hook_secret;                // empty: that of hook_secret_file
  std::string hook_secret_file;           // empty: one of our own, in the state directory
  bool hook_allow_private = false;
  std::vector<std::string> hook_networks;  // that callbacks may go to although they are private
  std::string hook_ca_file;                // empty: the system's
  std::string hook_dns_servers;            // empty: the system's
  std::vector<std::chrono::seconds> hook_schedule;  // empty: the usual one

  // Of a cluster (docs/cluster.md); an empty redis_host: this server stands alone.
  std::string redis_host;
  std::uint16_t redis_port = 6379;
  std::string redis_user;
  std::string redis_password;
  unsigned redis_database = 0;
  bool redis_tls = false;
  std::string redis_ca_file;                 // empty: the system's
  std::vector<std::string> redis_sentinels;  // host:port
  std::string redis_master = "mymaster";
  std::string redis_sentinel_password;
  std::vector<std::string> redis_cluster;  // host:port
  std::string advertise_url;               // empty: http://HOST:PORT
  Milliseconds cluster_lease = 10s;
  std::chrono::seconds cluster_outage{900};
  std::string cluster_secret;
  std::vector<std::string> workers;  // of a coordinator, beside those in Redis
  CheckpointConfig checkpoints;
  // There is a Redis to be found by.
  bool clustered() const {
    return !redis_host.empty() || !redis_sentinels.empty() || !redis_cluster.empty();
  }
};

// One row of the table: shown by `threadbox serve --help` and docs/operating.md.
struct Setting {
  std::string name;
  std::string shown_default;
  std::string meaning;
  // Returns what is wrong with the value, or nothing.
  std::function<std::string(Config&, const std::string&)> apply;
};
const std::vector<Setting>& settings();
std::vector<Setting> audit_settings();  // of that table

// Which program reads them: one default differs.
enum class Role { worker, coordinator };

// Of the environment and of the file that it names. Throws Error{invalid} that lists everything
// that is wrong, at once.
Config read_config(Role role = Role::worker);

}  // namespace tb
