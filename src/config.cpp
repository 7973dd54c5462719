// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <limits>

#include "base/error.h"
#include "config_guard.h"
#include "config_rules.h"
#include "hooks/signing.h"
#include "net/address.h"
#include "net/resolver.h"

namespace tb {
namespace {

using namespace rules;

// As Docker writes sizes: 256m, 1g, 512k, or plain bytes.
std::string apply_memory(Config& config, const std::string& value) {
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  const std::string unit{end, value.data() + value.size()};
  unsigned shift = 0;
  if (unit == "k" || unit == "K") shift = 10;
  if (unit == "m" || unit == "M") shift = 20;
  if (unit == "g" || unit == "G") shift = 30;
  const bool known = unit.empty() || unit == "b" || shift != 0;
  if (error != std::errc{} || !known || count > (1ull << 40) >> shift) {
    return "must be a size such as 256m or 1g";
  }
  const Bytes bytes{count << shift};
  if (bytes < 16_MiB) return "must be 16m at least";
  config.limits.memory = bytes;
  return {};
}

std::string apply_level(Config& config, const std::string& value) {
  struct Row {
    const char* name;
    LogLevel level;
  };
  constexpr Row kLevels[] = {{"debug", LogLevel::debug},
                             {"info", LogLevel::info},
                             {"warning", LogLevel::warning},
                             {"error", LogLevel::error},
                             {"off", LogLevel::off}};
  std::string lower;
  for (const char c : value)
    lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const Row& row : kLevels) {
    if (lower != row.name) continue;
    config.log_level = row.level;
    return {};
  }
  return "must be debug, info, warning, error or off";
}

std::string apply_warm(Config& config, const std::string& value) {
  words([](Config& to, std::vector<std::string> v) { to.warm = std::move(v); })(config, value);
  for (const std::string& one : config.warm) {
    if (one != "python" && one != "javascript") return "must be python, javascript, or both";
  }
  return {};
}

// "docker=native,e2b=native", or "none".
std::string apply_aliases(Config& config, const std::string& value) {
  std::string problem;
  const Apply each = words([&problem](Config& to, const std::vector<std::string>& list) {
    to.provider_aliases.clear();
    for (const std::string& word : list) {
      const std::size_t equals = word.find('=');
      if (equals == 0 || equals == word.npos || equals + 1 == word.size()) {
        problem = "must be none, or pairs such as docker=native,e2b=native";
        return;
      }
      to.provider_aliases.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    }
  });
  if (value == "none") {
    config.provider_aliases.clear();
    return {};
  }
  each(config, value);
  return problem;
}

constexpr std::uint64_t kMany = 1000000;

std::vector<Setting> serving_settings() {
  return {
      {"HOST", "127.0.0.1", "address to listen on; wider than loopback needs API keys",
       text([](Config& c, const std::string& v) { c.host = v; })},
      {"PORT", "5000", "port to listen on",
       number(0, 65535, [](Config& c, auto v) { c.port = static_cast<std::uint16_t>(v); })},
      {"ALLOW_NO_AUTH", "0", "1: listen beyond loopback without keys: anybody can run commands",
       number(0, 1, [](Config& c, auto v) { c.allow_no_auth = v == 1; })},
      {"STATE_DIR", "/var/lib/threadbox", "where all state lives; one server for each",
       text([](Config& c, const std::string& v) { c.state_dir = v; })},
      {"WORKER_ID", "standalone", "this server's name in answers",
       text([](Config& c, const std::string& v) { c.worker_id = v; })},
      {"ENVIRONMENT", "host", "what sandboxes see: host, or image:<directory or tar>",
       text([](Config& c, const std::string& v) { c.environment = v; })},
  };
}

std::vector<Setting> pool_settings() {
  return {
      {"POOL_SIZE", "10", "sandboxes kept ready",
       number(0, kMany, [](Config& c, auto v) { c.pool_size = v; })},
      {"MIN_POOL_SIZE", "3", "of them made again at once; the others after the delay",
       number(0, kMany, [](Config& c, auto v) { c.min_pool_size = v; })},
      {"MAX_POOL_SIZE", "80", "sandboxes at once, ready and in use",
       number(1, kMany, [](Config& c, auto v) { c.max_pool_size = v; })},
      {"POOL_REFILL_DELAY_SECONDS", "60", "until the pool grows back to POOL_SIZE",
       number(0, kMany, [](Config& c, auto v) { c.pool_refill_delay = std::chrono::seconds{v}; })},
      {"AGGRESSIVE_CLEANUP", "true", "let ready sandboxes beyond MIN_POOL_SIZE go when unused",
       flag([](Config& c, bool v) { c.aggressive_cleanup = v; })},
      {"CONTAINER_IDLE_TIMEOUT_MINUTES", "5", "unused for so long; sessions are not meant",
       number(1, kMany, [](Config& c, auto v) { c.pool_idle = std::chrono::minutes{v}; })},
      {"CLEANUP_INTERVAL_SECONDS", "300", "how often that is looked at",
       number(1, kMany, [](Config& c, auto v) { c.cleanup_interval = std::chrono::seconds{v}; })},
  };
}

std::vector<Setting> limits_settings() {
  return {
      {"MEMORY_LIMIT", "256m", "memory of a sandbox", apply_memory},
      {"CPU_QUOTA", "25000", "microseconds of CPU in each 100000",
       number(1000, 100000,
              [](Config& c, auto v) { c.limits.cpu_quota = static_cast<unsigned>(v); })},
      {"PIDS_LIMIT", "256", "processes and threads of a sandbox",
       number(16, 32768, [](Config& c, auto v) { c.limits.pids = static_cast<unsigned>(v); })},
      {"MAX_FILE_SIZE_MB", "100", "MiB of a file that is uploaded",
       number(1, kMany, [](Config& c, auto v) { c.max_file_size = Bytes{v << 20}; })},
      {"MAX_TOTAL_FILES", "1000", "files in a workspace beyond which no more are uploaded",
       number(1, kMany * 1000, [](Config& c, auto v) { c.max_total_files = v; })},
      {"MAX_WORKSPACE_SIZE_MB", "500", "MiB that a sandbox may write to disk",
       number(16, kMany, [](Config& c, auto v) { c.limits.disk = Bytes{v << 20}; })},
  };
}

std::vector<Setting> sessions_settings() {
  return {
      {"SESSION_TIMEOUT_MINUTES", "30", "idle minutes after which a session is gone",
       number(1, kMany, [](Config& c, auto v) { c.session_timeout = std::chrono::minutes{v}; })},
      {"DEFAULT_COMMAND_TIMEOUT", "30", "seconds that a command may run unless it says otherwise",
       number(1, 86400, [](Config& c, auto v) { c.command_timeout = std::chrono::seconds{v}; })},
      {"DEFAULT_POLICY", "strict", "which commands sessions may run: strict, wide, open, or yours",
       text([](Config& c, const std::string& v) { c.policy = v; })},
      {"ALLOWED_POLICIES", "(all)", "policies that clients may choose, with commas between them",
       words([](Config& c, std::vector<std::string> v) { c.policies = std::move(v); })},
      {"WARM_LANGUAGES", "(none)",
       "start interpreters ahead in ready sandboxes: python, javascript", apply_warm},
      {"REGISTRY_DIR", "(none)", "a registry of your own: environments, agents, tools, policies",
       text([](Config& c, const std::string& v) { c.registry_dir = v; })},
      {"SANDBOX_PROVIDER", "native", "who makes sandboxes unless a session says otherwise",
       text([](Config& c, const std::string& v) { c.provider = v; })},
      {"PROVIDER_ALIASES", "docker=native,e2b=native",
       "who stands in for a provider that is not set up; none: nobody", apply_aliases},
      {"CORS_ORIGINS", "(none)", "web sites whose pages may call, with commas between them, or *",
       words([](Config& c, std::vector<std::string> v) { c.cors_origins = std::move(v); })},
      {"OUTPUT_INLINE_KB", "1024", "KiB of each output stream in an answer",
       number(1, 65536, [](Config& c, auto v) { c.output.inline_bytes = Bytes{v << 10}; })},
      {"OUTPUT_LIMIT_MB", "64", "MiB of each output stream that are kept on disk",
       number(1, 65536, [](Config& c, auto v) { c.output.stored = Bytes{v << 20}; })},
      {"PRESTART_SECONDS", "30", "how long a shell started ahead waits for a command; 0: none",
       number(0, 3600, [](Config& c, auto v) { c.prestart = std::chrono::seconds{v}; })},
      {"SLEEP_SECONDS", "60",
       "a session unused for so long keeps its files, not its sandbox; 0: keeps both",
       number(0, kMany, [](Config& c, auto v) { c.sleep = std::chrono::seconds{v}; })},
      {"KEEPER_GRACE", "600", "seconds that sandboxes live on without a server",
       number(1, kMany, [](Config& c, auto v) { c.keeper_grace = std::chrono::seconds{v}; })},
      {"SHUTDOWN_GRACE_SECONDS", "10", "for requests under way to end after SIGTERM",
       number(0, 3600, [](Config& c, auto v) { c.shutdown_grace = std::chrono::seconds{v}; })},
  };
}

std::string apply_docker_host(Config& config, const std::string& value) {
  constexpr std::string_view kUnix = "unix://";
  if (!value.starts_with(kUnix) || value.size() <= kUnix.size() + 1 || value[kUnix.size()] != '/') {
    return "must be unix:// and the path of a socket: an engine is spoken to on this machine";
  }
  config.docker_socket = value.substr(kUnix.size());
  config.docker = true;
  return {};
}

std::vector<Setting> docker_settings() {
  return {
      {"CONTAINER_IMAGE", "sandbox-secure:latest",
       "of containers, unless an environment names another",
       text([](Config& c, const std::string& v) { c.docker_image = v; })},
      {"DOCKER_NETWORK_MODE", "none", "the network of containers; others have none",
       text([](Config& c, const std::string& v) { c.docker_network = v; })},
      {"DOCKER_RUNTIME", "(the engine's)", "of containers: runsc, kata, …",
       text([](Config& c, const std::string& v) { c.docker_runtime = v; })},
      {"DOCKER_HOST", "(none)",
       "the engine's socket; unix:///var/run/docker.sock if only SANDBOX_PROVIDER=docker is set",
       apply_docker_host},
  };
}

std::vector<Setting> storage_settings() {
  constexpr std::uint64_t kDays = 3650;
  return {
      {"STORAGE_PATH", "(in STATE_DIR)", "where artifacts and logs of sessions are kept",
       text([](Config& c, const std::string& v) { c.storage_path = v; })},
      {"ARTIFACT_SESSION_MB", "256", "MiB of artifacts that one session may keep",
       number(1, kMany, [](Config& c, auto v) { c.artifact_session = Bytes{v << 20}; })},
      {"ARTIFACT_TOTAL_MB", "10240", "MiB of artifacts of all sessions",
       number(1, kMany * 1000, [](Config& c, auto v) { c.artifact_total = Bytes{v << 20}; })},
      {"ARTIFACT_DAYS", "30", "days after which an artifact is removed",
       number(1, kDays, [](Config& c, auto v) { c.artifact_age = std::chrono::hours{v * 24}; })},
      {"SESSION_LOG_KB", "1024", "KiB of events that are kept of a session of an environment",
       number(4, kMany, [](Config& c, auto v) { c.session_log = Bytes{v << 10}; })},
      {"SESSION_LOG_DAYS", "30", "days after which they are removed",
       number(1, kDays, [](Config& c, auto v) { c.session_log_age = std::chrono::hours{v * 24}; })},
      {"VOLUME_SIZE_MB", "1024", "MiB of a volume that is made without a size",
       number(1, kMany * 1000, [](Config& c, auto v) { c.volume_size = Bytes{v << 20}; })},
      {"MAX_VOLUME_SIZE_MB", "10240", "MiB that a volume may be made with",
       number(1, kMany * 1000, [](Config& c, auto v) { c.max_volume_size = Bytes{v << 20}; })},
      {"MAX_VOLUMES_PER_USER", "32", "volumes that a user may have",
       number(0, 10'000, [](Config& c, auto v) { c.max_volumes = v; })},
  };
}

// Known to those who come from systems that had them.
std::vector<Setting> elsewhere_settings() {
  return {
      {"SANDBOX_USER", "sandboxuser", "who commands run as", only("sandboxuser")},
      {"WORKSPACE_DIR", "/workspace", "where they begin", only("/workspace")},
      {"HOST_WORKSPACE_PATH", "(none)", "not supported: a workspace belongs to one thread",
       unsupported("is not supported: it would share files between threads; upload them instead")},
  };
}

#ifdef TB_LIBRARY
// Only a server has a port and connects to others: a library has neither the settings nor what
// checks them.
std::vector<Setting> outgoing_settings() { return {}; }
std::vector<Setting> port_settings() { return {}; }
#else
std::string apply_hook_secret(Config& config, const std::string& value) {
  try {
    config.hook_secret = hooks::Secret::parse(value).text();
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

std::string apply_hook_networks(Config& config, const std::string& value) {
  const auto store = [](Config& c, std::vector<std::string> v) { c.hook_networks = std::move(v); };
  words(store)(config, value);
  for (const std::string& word : config.hook_networks) {
    if (!net::parse_network(word)) return "must be networks such as 10.1.0.0/16, with commas";
  }
  return {};
}

std::string apply_hook_dns(Config& config, const std::string& value) {
  config.hook_dns_servers = value;
  if (net::good_dns_servers(value)) return {};
  return "must be addresses of servers, with or without a port and with commas between them";
}

std::string apply_hook_schedule(Config& config, const std::string& value) {
  std::vector<std::string> list;
  words([&](Config&, std::vector<std::string> v) { list = std::move(v); })(config, value);
  for (const std::string& word : list) {
    std::uint64_t seconds = 0;
    const auto store = [&](Config&, std::uint64_t v) { seconds = v; };
    if (!number(1, 86400, store)(config, word).empty()) list.clear();
    if (list.empty()) break;
    config.hook_schedule.emplace_back(seconds);
  }
  if (!list.empty() && list.size() <= 20) return {};
  return "must be up to 20 whole numbers from 1 to 86400, with commas between them";
}

std::vector<Setting> outgoing_settings() {
  const auto e2b = [](std::string E2bConfig::* field) {
    return text([field](Config& c, const std::string& v) { c.e2b.*field = v; });
  };
  return {
      {"E2B_API_KEY", "(none)", "with it sandboxes are made at E2B", e2b(&E2bConfig::key)},
      {"E2B_DOMAIN", "e2b.app", "where its hosts are", e2b(&E2bConfig::domain)},
      {"E2B_API_URL", "(domain's)", "its control plane", e2b(&E2bConfig::api_url)},
      {"E2B_SANDBOX_URL", "(domain's)", "its sandboxes", e2b(&E2bConfig::sandbox_url)},
      {"E2B_TEMPLATE", "base", "what is in them", e2b(&E2bConfig::sandbox_template)},
      {"E2B_CA_FILE", "(system's)", "certificates to trust, in PEM", e2b(&E2bConfig::ca_file)},
      {"WEBHOOK_SECRET", "(made)", "signs callbacks: whsec_ and base64; see `threadbox secret`",
       apply_hook_secret},
      {"WEBHOOK_SECRET_FILE", "(none)", "a file that has it instead",
       text([](Config& c, const std::string& v) { c.hook_secret_file = v; })},
      {"WEBHOOK_ALLOW_PRIVATE", "false", "true: callbacks may go to private and loopback addresses",
       flag([](Config& c, bool v) { c.hook_allow_private = v; })},
      {"WEBHOOK_ALLOW_NETWORKS", "(none)", "or only to these networks, with commas between them",
       apply_hook_networks},
      {"WEBHOOK_CA_FILE", "(system's)", "certificates to trust for https, in PEM",
       text([](Config& c, const std::string& v) { c.hook_ca_file = v; })},
      {"WEBHOOK_DNS_SERVERS", "(system's)", "who is asked for the names of receivers",
       apply_hook_dns},
      {"WEBHOOK_RETRY_SECONDS", "5,30,120,600,1800,7200,18000",
       "pauses between attempts; after the last one a callback is dead", apply_hook_schedule},
  };
}

std::vector<Setting> port_settings() { return guard_settings(); }
#endif

std::vector<Setting> token_settings() {
  const auto jwt = [](std::string JwtConfig::* field) {
    return text([field](Config& c, const std::string& v) { c.jwt.*field = v; });
  };
  return {
      {"JWT_JWKS_URL", "(none)", "keys of an identity provider, whose tokens open this server",
       jwt(&JwtConfig::jwks_url)},
      {"JWT_JWKS_FILE", "(none)", "the same in a file", jwt(&JwtConfig::jwks_file)},
      {"JWT_SECRET", "(none)", "or a secret for HS256", jwt(&JwtConfig::secret)},
      {"JWT_CA_FILE", "(system's)", "certificates to trust for the URL, in PEM",
       jwt(&JwtConfig::ca_file)},
      {"JWT_ISSUER", "(none)", "who makes the tokens: their iss", jwt(&JwtConfig::issuer)},
      {"JWT_AUDIENCE", "(none)", "whom they are for: their aud", jwt(&JwtConfig::audience)},
      {"JWT_LEEWAY_SECONDS", "60", "by which clocks may differ",
       number(0, 600, [](Config& c, auto v) { c.jwt.leeway = std::chrono::seconds{v}; })},
      {"JWT_TENANT_CLAIM", "tenant", "which claim names the tenant; none: the default one",
       jwt(&JwtConfig::tenant_claim)},
      {"JWT_ROLE_CLAIM", "role", "which claim has the role", jwt(&JwtConfig::role_claim)},
  };
}

std::vector<Setting> logging_settings() {
  return {
      {"DEBUG", "false", "true: LOG_LEVEL=debug",
       flag([](Config& c, bool v) { c.log_level = v ? LogLevel::debug : c.log_level; })},
      {"LOG_LEVEL", "info", "debug, info, warning, error or off", apply_level},
      {"LOG_JSON", "0", "1: log lines as JSON", flag([](Config& c, bool v) { c.log_json = v; })},
      {"LOG_COMMANDS", "true", "false: the text of commands stays out of the log",
       flag([](Config& c, bool v) { c.log_commands = v; })},
  };
}

}  // namespace

#ifdef TB_LIBRARY
std::vector<Setting> audit_settings() { return {}; }  // nobody but a server keeps one
#endif

const std::vector<Setting>& settings() {
  static const std::vector<Setting> table = [] {
    std::vector<Setting> all;
    for (const auto& group :
         {serving_settings, port_settings, pool_settings, limits_settings, sessions_settings,
          storage_settings, docker_settings, outgoing_settings, cluster_settings, token_settings,
          checkpoint_settings, elsewhere_settings, logging_settings, audit_settings}) {
      for (Setting& setting : group()) all.push_back(std::move(setting));
    }
    return all;
  }();
  return table;
}

}  // namespace tb
