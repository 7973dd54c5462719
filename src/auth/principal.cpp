// SPDX-License-Identifier: Apache-2.0
#include "auth/principal.h"

#include <algorithm>

#include "base/error.h"

namespace tb::auth {
namespace {

struct RoleRow {
  std::string_view name;
  Role role;
};
constexpr RoleRow kRoles[] = {
    {"readonly", Role::readonly}, {"user", Role::user}, {"admin", Role::admin}};

struct ScopeRow {
  std::string_view name;
  Scope scope;
};
constexpr ScopeRow kScopes[] = {{"sessions", Scope::sessions},   {"volumes", Scope::volumes},
                                {"artifacts", Scope::artifacts}, {"webhooks", Scope::webhooks},
                                {"registry", Scope::registry},   {"metrics", Scope::metrics},
                                {"admin", Scope::admin}};

Scopes bit_of(std::string_view name) {
  std::string known;
  for (const ScopeRow& row : kScopes) {
    if (row.name == name) return static_cast<Scopes>(row.scope);
    known.append(known.empty() ? "" : ", ").append(row.name);
  }
  throw Error{Code::invalid,
              "there is no scope \"" + std::string{name.substr(0, 64)} + "\": there are " + known};
}

}  // namespace

std::string_view name_of(Role role) {
  for (const RoleRow& row : kRoles) {
    if (row.role == role) return row.name;
  }
  return "readonly";
}

std::optional<Role> find_role(std::string_view name) {
  if (name == "read-only") return Role::readonly;
  for (const RoleRow& row : kRoles) {
    if (row.name == name) return row.role;
  }
  return std::nullopt;
}

std::string to_text(Scopes scopes) {
  std::string text;
  if (scopes == kAllScopes) return text;
  for (const ScopeRow& row : kScopes) {
    if ((scopes & static_cast<Scopes>(row.scope)) == 0) continue;
    text.append(text.empty() ? "" : ",").append(row.name);
  }
  return text;
}

Scopes parse_scopes(std::string_view text) {
  if (text.empty()) return kAllScopes;
  Scopes scopes = 0;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t comma = std::min(text.find(',', start), text.size());
    scopes |= bit_of(text.substr(start, comma - start));
    start = comma + 1;
  }
  return scopes;
}

bool is_tenant_name(std::string_view name) {
  return name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '.' || c == '_' || c == '-';
         });
}

}  // namespace tb::auth
