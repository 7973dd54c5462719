// SPDX-License-Identifier: Apache-2.0
// Who asks, and what that one may do. A value, known before a handler sees the request.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace tb::auth {

// Each may do what those before it may.
enum class Role { readonly, user, admin };
std::string_view name_of(Role role);
std::optional<Role> find_role(std::string_view name);

// What a key may be narrowed to: parts of the API, by their paths (api/rules.cpp).
enum class Scope : unsigned {
  sessions = 1,
  volumes = 2,
  artifacts = 4,
  webhooks = 8,
  registry = 16,
  metrics = 32,
  admin = 64,
};
using Scopes = unsigned;  // of Scope, or-ed
inline constexpr Scopes kAllScopes = 127;

// "metrics,volumes"; empty when it is all of them.
std::string to_text(Scopes scopes);
// Throws Error{invalid} with the names that there are. An empty text: all.
Scopes parse_scopes(std::string_view text);

// 1 to 64 of [A-Za-z0-9._-], or empty, which is the default tenant.
bool is_tenant_name(std::string_view name);

struct Principal {
  std::string tenant = {};   // empty: the default one, of whoever runs the server
  Role role = Role::admin;   // so where nobody is asked for a key, everybody may do everything
  std::string key = {};      // the id of its key; empty: it has none
  std::string user = {};     // whom a token of others names as its subject; empty: nobody
  std::string session = {};  // the only one that it may touch; empty: all of its tenant's
  Scopes scopes = kAllScopes;
  // Nothing that it makes for others outlives that.
  std::optional<std::chrono::system_clock::time_point> expires = {};
  bool stranger = false;  // nobody knows who it is: it gets what is open to all

  // What concerns the server as a whole is for those who run it.
  bool operates() const { return tenant.empty() && session.empty() && !stranger; }
};

}  // namespace tb::auth
