// SPDX-License-Identifier: Apache-2.0
#include "config.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <limits>

#include "base/error.h"

namespace tb {
namespace {

using Apply = std::function<std::string(Config&, const std::string&)>;

// A whole number within bounds, handed to `store`.
template <class Store>
Apply number(std::uint64_t least, std::uint64_t most, Store store) {
  return [=](Config& config, const std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
      return "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most);
    }
    store(config, value);
    return {};
  };
}

template <class Store>
Apply text(Store store) {
  return [=](Config& config, const std::string& value) -> std::string {
    if (value.empty()) return "must not be empty";
    store(config, value);
    return {};
  };
}

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

constexpr std::uint64_t kMany = 1000000;

}  // namespace

const std::vector<Setting>& settings() {
  static const std::vector<Setting> table = {
      {"HOST", "127.0.0.1", "address to listen on; wider than loopback needs ALLOW_NO_AUTH=1",
       text([](Config& c, const std::string& v) { c.host = v; })},
      {"PORT", "5000", "port to listen on",
       number(0, 65535, [](Config& c, auto v) { c.port = static_cast<std::uint16_t>(v); })},
      {"ALLOW_NO_AUTH", "0", "1: listen beyond loopback although anybody can then run commands",
       number(0, 1, [](Config& c, auto v) { c.allow_no_auth = v == 1; })},
      {"STATE_DIR", "/var/lib/threadbox", "where all state lives; one server for each",
       text([](Config& c, const std::string& v) { c.state_dir = v; })},
      {"WORKER_ID", "standalone", "this server's name in answers",
       text([](Config& c, const std::string& v) { c.worker_id = v; })},
      {"ENVIRONMENT", "host", "what sandboxes see: host, or image:<directory or tar>",
       text([](Config& c, const std::string& v) { c.environment = v; })},
      {"POOL_SIZE", "10", "sandboxes kept ready",
       number(0, kMany, [](Config& c, auto v) { c.pool_size = v; })},
      {"MAX_POOL_SIZE", "80", "sandboxes at once, ready and in use",
       number(1, kMany, [](Config& c, auto v) { c.max_pool_size = v; })},
      {"MEMORY_LIMIT", "256m", "memory of a sandbox", apply_memory},
      {"CPU_QUOTA", "25000", "microseconds of CPU in each 100000",
       number(1000, 100000,
              [](Config& c, auto v) { c.limits.cpu_quota = static_cast<unsigned>(v); })},
      {"PIDS_LIMIT", "256", "processes and threads of a sandbox",
       number(16, 32768, [](Config& c, auto v) { c.limits.pids = static_cast<unsigned>(v); })},
      {"MAX_WORKSPACE_SIZE_MB", "500", "MiB that a sandbox may write to disk",
       number(16, kMany, [](Config& c, auto v) { c.limits.disk = Bytes{v << 20}; })},
      {"SESSION_TIMEOUT_MINUTES", "30", "idle minutes after which a session is gone",
       number(1, kMany, [](Config& c, auto v) { c.session_timeout = std::chrono::minutes{v}; })},
      {"DEFAULT_COMMAND_TIMEOUT", "30", "seconds that a command may run unless it says otherwise",
       number(1, 86400, [](Config& c, auto v) { c.command_timeout = std::chrono::seconds{v}; })},
      {"OUTPUT_INLINE_KB", "1024", "KiB of each output stream in an answer",
       number(1, 65536, [](Config& c, auto v) { c.output.inline_bytes = Bytes{v << 10}; })},
      {"OUTPUT_LIMIT_MB", "64", "MiB of each output stream that are kept on disk",
       number(1, 65536, [](Config& c, auto v) { c.output.stored = Bytes{v << 20}; })},
      {"KEEPER_GRACE", "600", "seconds that sandboxes live on without a server",
       number(1, kMany, [](Config& c, auto v) { c.keeper_grace = std::chrono::seconds{v}; })},
      {"LOG_LEVEL", "info", "debug, info, warning, error or off", apply_level},
      {"LOG_JSON", "0", "1: log lines as JSON",
       number(0, 1, [](Config& c, auto v) { c.log_json = v == 1; })},
  };
  return table;
}

namespace {

std::string default_state_dir() {
  if (::geteuid() == 0) return "/var/lib/threadbox";
  if (const char* data = std::getenv("XDG_DATA_HOME")) return std::string{data} + "/threadbox";
  if (const char* home = std::getenv("HOME")) return std::string{home} + "/.local/share/threadbox";
  return "/tmp/threadbox-" + std::to_string(::geteuid());
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

}  // namespace

Config read_config() {
  Config config;
  config.state_dir = default_state_dir();
  std::string wrong;
  const auto complain = [&](const std::string& text) { wrong += "\n  " + text; };
  for (const Setting& setting : settings()) {
    const char* value = std::getenv(setting.name.c_str());
    if (!value || !*value) continue;
    const std::string problem = setting.apply(config, value);
    if (!problem.empty()) complain(setting.name + "=" + value + ": " + problem);
  }
  if (config.pool_size > config.max_pool_size) {
    complain("POOL_SIZE must not be larger than MAX_POOL_SIZE");
  }
  if (!is_loopback(config.host) && !config.allow_no_auth) {
    complain("HOST=" + config.host +
             ": anybody who reaches this address could run commands; set ALLOW_NO_AUTH=1 if that "
             "is meant");
  }
  if (!wrong.empty()) throw Error{Code::invalid, "wrong settings:" + wrong};
  return config;
}

}  // namespace tb
