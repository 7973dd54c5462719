// SPDX-License-Identifier: Apache-2.0
#include "config_sources.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "http/address.h"
#include "os/fd.h"

namespace tb {
namespace {

const char* const kFileVariable = "THREADBOX_CONFIG";

// By its name, so that a new one can't be forgotten here.
bool is_secret(const std::string& name) {
  constexpr const char* kEnds[] = {"_SECRET", "_PASSWORD", "_KEY", "_TOKEN"};
  if (name == "LIMITS_PER_KEY") return false;  // what keys may do, and none of them
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](const char* end) { return name.ends_with(end); });
}

std::string trim(std::string text) {
  text.erase(0, text.find_first_not_of(" \t\r"));
  text.erase(text.find_last_not_of(" \t\r") + 1);
  return text;
}

bool known(const std::string& name) {
  const auto& table = settings();
  return std::any_of(table.begin(), table.end(),
                     [&](const Setting& setting) { return setting.name == name; });
}

// NAME=VALUE, NAME="VALUE" or NAME='VALUE', as in an environment file of systemd. Returns what is
// wrong with it, or nothing.
std::string read_line(const std::string& line, std::string& name, std::string& value) {
  const std::size_t equals = line.find('=');
  if (equals == std::string::npos) return "must be NAME=VALUE";
  name = trim(line.substr(0, equals));
  value = trim(line.substr(equals + 1));
  const auto control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (std::any_of(line.begin(), line.end(), control)) return "has a control character";
  if (!known(name)) return "\"" + name + "\" is no setting; `threadbox config` lists them";
  if (value.empty() || (value.front() != '"' && value.front() != '\'')) return {};
  if (value.size() < 2 || value.back() != value.front()) return name + ": a quote is not closed";
  value = value.substr(1, value.size() - 2);
  return {};
}

void read_settings_file(const std::string& path, GivenSettings& given) {
  std::string wrong;
  std::istringstream text{os::read_file(path)};
  int number = 0;
  for (std::string line; std::getline(text, line);) {
    ++number;
    line = trim(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    const std::string place = path + ":" + std::to_string(number);
    std::string name, value;
    std::string problem = read_line(line, name, value);
    if (problem.empty() && given.contains(name)) {
      problem = name + " is given twice, first in " + given[name].place;
    }
    if (!problem.empty()) wrong += "\n  " + place + ": " + problem;
    given[name] = Given{value, Origin::file, place};
  }
  if (!wrong.empty()) throw Error{Code::invalid, "wrong settings:" + wrong};
  std::erase_if(given, [](const auto& entry) { return entry.second.value.empty(); });
}

std::string default_state_dir() {
  if (::geteuid() == 0) return "/var/lib/threadbox";
  if (const char* data = std::getenv("XDG_DATA_HOME")) return std::string{data} + "/threadbox";
  if (const char* home = std::getenv("HOME")) return std::string{home} + "/.local/share/threadbox";
  return "/tmp/threadbox-" + std::to_string(::geteuid());
}

void check_tls(const TlsConfig& tls, const std::function<void(const std::string&)>& complain) {
  if (tls.certificate_file.empty() != tls.key_file.empty()) {
    complain("TLS_CERT_FILE and TLS_KEY_FILE need each other: set both, or none");
  }
  if (!tls.client_ca_file.empty() && tls.certificate_file.empty()) {
    complain("TLS_CLIENT_CA_FILE needs TLS_CERT_FILE and TLS_KEY_FILE");
  }
  if (!tls.client_required && tls.client_ca_file.empty()) {
    complain("TLS_CLIENT_CERTS=optional needs TLS_CLIENT_CA_FILE, the authorities to trust");
  }
}

void check_jwt(const JwtConfig& jwt, const std::function<void(const std::string&)>& complain) {
  if (!jwt.any()) return;
  if (jwt.issuer.empty() || jwt.audience.empty()) {
    complain("JWT_ISSUER and JWT_AUDIENCE must be set: tokens for others would open this server");
  }
  if (!jwt.secret.empty() && jwt.secret.size() < 32) complain("JWT_SECRET must have 32 bytes");
  const std::string& url = jwt.jwks_url;
  const bool near = url.starts_with("http://127.") || url.starts_with("http://localhost:");
  if (!url.empty() && !url.starts_with("https://") && !near) {
    complain("JWT_JWKS_URL=" + url + ": must be https: whoever is between could give us keys");
  }
}

// What concerns more than one setting.
void check_together(const Config& config, const std::function<void(const std::string&)>& complain) {
  if (config.min_pool_size > config.pool_size) {
    complain("MIN_POOL_SIZE must not be larger than POOL_SIZE");
  }
  if (config.pool_size > config.max_pool_size) {
    complain("POOL_SIZE must not be larger than MAX_POOL_SIZE");
  }
  if (!config.docker && config.docker_network != "none") {
    complain("DOCKER_NETWORK_MODE=" + config.docker_network +
             ": must be none: sandboxes of this machine know no other; containers do "
             "(SANDBOX_PROVIDER=docker or DOCKER_HOST)");
  }
  check_jwt(config.jwt, complain);
  if (config.volume_size > config.max_volume_size) {
    complain("VOLUME_SIZE_MB must not be larger than MAX_VOLUME_SIZE_MB");
  }
  check_tls(config.tls, complain);
}

std::string name_of(const Given& given) {
  if (given.origin == Origin::file) return "file " + given.place;
  return given.origin == Origin::environment ? "environment" : "flag";
}

const char* level_name(LogLevel level) {
  constexpr const char* kNames[] = {"debug", "info", "warning", "error", "off"};
  return kNames[static_cast<int>(level)];
}

}  // namespace

bool is_loopback(const std::string& host) {
  const auto address = http::parse_tcp_address(host, 0);  // none for a name: that may be anywhere
  return address && address->is_loopback();
}

GivenSettings gather_settings(const std::string& file,
                              const std::map<std::string, std::string>& flags) {
  GivenSettings given;
  const char* named = std::getenv(kFileVariable);
  const std::string path = !file.empty() || !named ? file : named;
  if (!path.empty()) read_settings_file(path, given);
  for (const Setting& setting : settings()) {
    const char* value = std::getenv(setting.name.c_str());
    if (value && *value) given[setting.name] = Given{value, Origin::environment};
    const auto flag = flags.find(setting.name);
    if (flag == flags.end() || flag->second.empty()) continue;
    given[setting.name] = Given{flag->second, Origin::flag};
  }
  return given;
}

Config read_config(const GivenSettings& given, Role role) {
  Config config;
  if (role == Role::coordinator) config.port = 8000;
  config.state_dir = default_state_dir();
  std::string wrong;
  for (const Setting& setting : settings()) {
    const auto found = given.find(setting.name);
    if (found == given.end()) continue;
    const auto& [value, origin, place] = found->second;
    const std::string problem = setting.apply(config, value);
    if (problem.empty()) continue;
    wrong += "\n  " + setting.name + "=" + (is_secret(setting.name) ? "…" : value) + ": " + problem;
    if (!place.empty()) wrong += " (" + place + ")";
  }
  if (!given.contains("MIN_POOL_SIZE")) {
    config.min_pool_size = std::min(config.min_pool_size, config.pool_size);
  }
  if (config.provider == "docker") config.docker = true;
  check_together(config, [&](const std::string& text) { wrong += "\n  " + text; });
  if (!wrong.empty()) throw Error{Code::invalid, "wrong settings:" + wrong};
  return config;
}

Config read_config(Role role) { return read_config(gather_settings(), role); }

std::string flag_of(const Setting& setting) {
  if (is_secret(setting.name)) return {};
  std::string flag;
  for (const char c : setting.name) {
    flag += c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return flag;
}

std::vector<ShownSetting> show_settings(const Config& config, const GivenSettings& given) {
  std::vector<ShownSetting> shown;
  for (const Setting& setting : settings()) {
    const auto found = given.find(setting.name);
    ShownSetting row{setting.name, setting.shown_default, "default"};
    if (found != given.end()) {
      row.value = is_secret(setting.name) ? "(hidden)" : found->second.value;
      row.origin = name_of(found->second);
    }
    // Three whose defaults depend on others.
    if (setting.name == "STATE_DIR") row.value = config.state_dir;
    if (setting.name == "MIN_POOL_SIZE") row.value = std::to_string(config.min_pool_size);
    if (setting.name == "LOG_LEVEL") {
      row.value = level_name(config.log_level);
      const auto debug = given.find("DEBUG");
      if (found == given.end() && debug != given.end() && config.log_level == LogLevel::debug) {
        row.origin = name_of(debug->second);
      }
    }
    shown.push_back(std::move(row));
  }
  return shown;
}

}  // namespace tb
