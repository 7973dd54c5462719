// SPDX-License-Identifier: Apache-2.0
#include "cli/limits.h"

#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "os/fd.h"

namespace tb::cli {
namespace {

constexpr std::size_t kMaxFile = 16 << 20;

limits::Limiter::Settings settings_of(const Config& config) {
  limits::Limiter::Settings settings;
  settings.key = config.key_limits;
  settings.tenant = config.tenant_limits;
  settings.user = config.user_limits;
  return settings;
}

limits::Scope scope_named(const std::string& name) {
  for (const auto scope : {limits::Scope::key, limits::Scope::tenant, limits::Scope::user}) {
    if (name == limits::name_of(scope)) return scope;
  }
  throw Error{Code::invalid, "must begin with key, tenant or user"};
}

void read_line(const std::string& line, LimitsTable& table) {
  std::istringstream words{line};
  std::string scope_name, name, rest;
  words >> scope_name >> name;
  std::getline(words, rest);
  const limits::Scope scope = scope_named(scope_name);
  if (name.empty()) throw Error{Code::invalid, "must say whose limits they are"};
  if (scope == limits::Scope::user) {
    const std::size_t slash = name.find('/');
    if (slash == name.npos) throw Error{Code::invalid, "a user is <tenant>/<user>, or /<user>"};
    name[slash] = '\n';  // as the limiter writes it
  }
  if (!table.emplace(std::pair{scope, name}, limits::parse_allowance(rest)).second) {
    throw Error{Code::invalid, "is there twice"};
  }
}

LimitsTable read_table(const std::string& path) {
  if (path.empty()) return {};
  return parse_limits(os::read_file(path, kMaxFile), path);
}

session::Quota quota_named(std::string_view name) {
  const auto* const found =
      std::find(session::kQuotaNames.begin(), session::kQuotaNames.end(), name);
  TB_ASSERT(found != session::kQuotaNames.end());
  return static_cast<session::Quota>(found - session::kQuotaNames.begin());
}

}  // namespace

LimitsTable parse_limits(const std::string& text, const std::string& path) {
  LimitsTable table;
  std::string wrong;
  std::istringstream lines{text};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == line.npos || line[begin] == '#') continue;
    line.erase(line.find_last_not_of(" \t\r") + 1);
    try {
      read_line(line, table);
    } catch (const Error& error) {
      wrong += "\n  " + path + ":" + std::to_string(number) + ": " + error.what();
    }
  }
  if (!wrong.empty()) throw Error{Code::invalid, "wrong limits:" + wrong};
  return table;
}

ServerQuotas::ServerQuotas(const Config& config)
    : path_(config.limits_file), table_(read_table(path_)), limiter_(settings_of(config)) {
  if (path_.empty()) return;
  limiter_.set_special(
      [this](limits::Scope scope, const std::string& name) -> std::optional<limits::Allowance> {
        const auto found = table_.find({scope, name});
        if (found == table_.end()) return std::nullopt;
        return found->second;
      });
}

void ServerQuotas::count_in(session::Metrics& metrics) {
  limiter_.on_exceeded(
      [&metrics](const limits::Identity& who, limits::Scope scope, std::string_view what) {
        metrics.quotas_exceeded[quota_named(what)].add();
        log(LogLevel::debug, "quota_exceeded",
            {{"tenant", who.tenant},
             {"key", who.key},
             {"user", who.user},
             {"of", std::string{limits::name_of(scope)}},
             {"quota", std::string{what}}});
      });
}

void ServerQuotas::reload() {
  if (path_.empty()) return;
  try {
    table_ = read_table(path_);
    log(LogLevel::info, "limits_reloaded", {{"path", path_}});
  } catch (const Error& error) {
    log(LogLevel::error, "limits_not_reloaded", {{"error", error.what()}});
  }
}

}  // namespace tb::cli
