// SPDX-License-Identifier: Apache-2.0
// `threadbox keys`: API keys are made, listed and revoked here, while a server runs or not.
#include <unistd.h>

#include <boost/json.hpp>
#include <charconv>
#include <cstdio>

#include "auth/key_table.h"
#include "base/iso8601.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/engine.h"

namespace tb::cli {
namespace json = boost::json;
namespace {

// The server, which is not root, reads what root writes.
auth::KeyTable open_table(const Config& config) {
  prepare_state(config);
  const std::string path = keys_path(config);
  auth::KeyTable table{path};
  if (::geteuid() == 0) {
    check(::lchown(path.c_str(), server_uid(), server_uid()), "chown " + path);
  }
  return table;
}

struct Unit {
  char name;
  std::int64_t seconds;
};
constexpr Unit kUnits[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};

// "30d"; "never" is the beginning of time.
auth::WallTime read_expiry(const std::string& text) {
  if (text.empty() || text == "never") return {};
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  constexpr std::int64_t kMost = 36500ll * 86400;
  if (error == std::errc{} && end + 1 == text.data() + text.size() && count > 0) {
    for (const Unit& unit : kUnits) {
      if (unit.name != *end || count > kMost / unit.seconds) continue;
      return std::chrono::system_clock::now() + std::chrono::seconds{count * unit.seconds};
    }
  }
  throw Error{Code::invalid, "--expires must be a time such as 30d, 12h, 45m or 90s, or never"};
}

auth::Role read_role(const std::string& name) {
  if (const auto role = auth::find_role(name)) return *role;
  throw Error{Code::invalid, "--role must be admin, user or readonly"};
}

std::string time_or(auth::WallTime time, const char* otherwise) {
  return time == auth::WallTime{} ? otherwise : iso8601(time);
}

const char* state_of(const auth::Key& key) {
  if (key.revoked != auth::WallTime{}) return "revoked";
  const bool over =
      key.expires != auth::WallTime{} && key.expires <= std::chrono::system_clock::now();
  return over ? "expired" : "active";
}

json::value or_null(auth::WallTime time) {
  return time == auth::WallTime{} ? json::value(nullptr) : json::value_from(iso8601(time));
}

json::object describe(const auth::Key& key) {
  return {{"id", key.id},
          {"tenant", key.tenant},
          {"role", auth::name_of(key.role)},
          {"scopes", auth::to_text(key.scopes)},
          {"name", key.name},
          {"state", state_of(key)},
          {"created_at", iso8601(key.created)},
          {"expires_at", or_null(key.expires)},
          {"revoked_at", or_null(key.revoked)}};
}

// On one line, whatever somebody called it.
std::string shown(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text.empty() ? "-" : text;
}

}  // namespace

int create_key(const Config& config, const KeyOptions& options) {
  auth::Key key;
  key.tenant = options.tenant;
  key.role = read_role(options.role);
  key.scopes = auth::parse_scopes(options.scopes);
  key.name = options.name;
  key.expires = read_expiry(options.expires);
  auth::KeyTable table = open_table(config);
  const std::string text = table.create(key);
  if (options.json) {
    json::object answer = describe(key);
    answer["key"] = text;
    std::printf("%s\n", json::serialize(answer).c_str());
    return 0;
  }
  // Alone on stdout: KEY=$(threadbox keys create …).
  std::printf("%s\n", text.c_str());
  std::fprintf(
      stderr,
      "key %s of tenant %s, role %s, expires %s. It is shown this once: keep it.\n"
      "Use it: curl -H \"Authorization: Bearer $KEY\" …, or SANDBOX_API_KEY for the SDK.\n",
      key.id.c_str(), key.tenant.empty() ? "(default)" : key.tenant.c_str(),
      std::string{auth::name_of(key.role)}.c_str(), time_or(key.expires, "never").c_str());
  return 0;
}

int list_keys(const Config& config, bool as_json) {
  const std::vector<auth::Key> keys = open_table(config).list();
  if (as_json) {
    json::array rows;
    for (const auth::Key& key : keys) rows.push_back(describe(key));
    std::printf("%s\n", json::serialize(rows).c_str());
    return 0;
  }
  std::printf("%-12s  %-16s  %-8s  %-8s  %-20s  %-20s  %-20s  %s\n", "id", "tenant", "role",
              "state", "created", "expires", "scopes", "name");
  for (const auth::Key& key : keys) {
    std::printf("%-12s  %-16s  %-8s  %-8s  %-20s  %-20s  %-20s  %s\n", key.id.c_str(),
                key.tenant.empty() ? "(default)" : key.tenant.c_str(),
                std::string{auth::name_of(key.role)}.c_str(), state_of(key),
                iso8601(key.created).c_str(), time_or(key.expires, "never").c_str(),
                key.scopes == auth::kAllScopes ? "all" : auth::to_text(key.scopes).c_str(),
                shown(key.name).c_str());
  }
  return 0;
}

int revoke_key(const Config& config, const std::string& id) {
  // Whoever has only the key at hand may give that.
  const auto text = auth::KeyText::parse(id);
  const std::string wanted = text ? std::string{text->id} : id;
  if (!open_table(config).revoke(wanted)) {
    throw Error{Code::not_found,
                "there is no key " + shown(wanted.substr(0, 64)) + ": `threadbox keys list`"};
  }
  std::printf("key %s is revoked\n", wanted.c_str());
  return 0;
}

}  // namespace tb::cli
