// SPDX-License-Identifier: Apache-2.0
#include "api/rules.h"

#include "http/message.h"

namespace tb::api {
namespace {

using auth::Role;
using auth::Scope;

struct Row {
  std::string_view method;
  std::string_view pattern;
  Access access;
  bool in_session = false;
  bool whole_server = false;
};

// What is not as the default has it. A GET that can start or end something is not here, nor are
// webhooks: where they lead to may be a secret.
constexpr Row kRows[] = {
    {"GET", "/", Access::open},
    {"GET", "/health", Access::open},
    {"GET", "/healthz", Access::open},
    {"GET", "/readyz", Access::open},
    {"GET", "/openapi.json", Access::open},
    {"GET", "/docs", Access::open},
    {"GET", "/redoc", Access::open},

    // They have a secret of their own.
    {"GET", "/cluster/redis", Access::open},
    {"POST", "/cluster/arrivals", Access::open},
    {"POST", "/cluster/arrivals/{}", Access::open},
    {"GET", "/cluster/leaving/{}", Access::open},
    {"POST", "/admin/drain", Access::open},
    {"GET", "/admin/drain", Access::open},
    {"DELETE", "/admin/drain", Access::open},

    {"GET", "/cluster/caller", Access::read, true},
    {"GET", "/metrics", Access::read, false, true},

    {"POST", "/execute", Access::write, true},
    {"POST", "/cleanup", Access::write, true},
    {"POST", "/upload_file", Access::write, true},
    {"GET", "/get_session", Access::read, true},
    {"GET", "/status/{}", Access::read, true},
    {"GET", "/download_file", Access::read, true},
    {"POST", "/download_file", Access::read, true},
    {"GET", "/list_files", Access::read, true},

    {"GET", "/api/sessions", Access::read},
    {"GET", "/api/sessions/{}", Access::read, true},
    {"DELETE", "/api/sessions/{}", Access::write, true},
    {"GET", "/api/sessions/{}/log", Access::read, true},
    {"GET", "/api/sessions/{}/artifacts", Access::read, true},
    {"GET", "/api/sessions/{}/contexts", Access::read, true},
    {"GET", "/api/sessions/{}/contexts/{}", Access::read, true},
    {"GET", "/api/sessions/{}/files", Access::read, true},
    {"GET", "/api/sessions/{}/files/archive", Access::read, true},
    {"GET", "/api/sessions/{}/files/content", Access::read, true},
    {"GET", "/api/sessions/{}/files/glob", Access::read, true},
    {"GET", "/api/sessions/{}/files/list", Access::read, true},
    {"POST", "/api/sessions/{}/files/search", Access::read, true},
    {"GET", "/api/sessions/{}/processes", Access::read, true},
    {"GET", "/api/sessions/{}/processes/{}", Access::read, true},
    {"GET", "/api/sessions/{}/processes/{}/output", Access::read, true},
    {"GET", "/api/sessions/{}/shells", Access::read, true},
    {"GET", "/api/sessions/{}/shells/{}", Access::read, true},
    {"GET", "/api/sessions/{}/tools", Access::read, true},
    {"POST", "/api/sessions/{}/tokens", Access::write},  // no token makes another

    {"POST", "/api/e2b/execute", Access::write, true},
    {"POST", "/api/e2b/files", Access::write, true},
    {"GET", "/api/e2b/files/{}", Access::read, true},
    {"GET", "/api/e2b/files/{}/{*}", Access::read, true},
    {"GET", "/api/e2b/url/{}", Access::read, true},

    {"GET", "/api/registry", Access::read},
    {"GET", "/api/registry/{}", Access::read},
    {"GET", "/api/registry/{}/{}", Access::read},

    {"GET", "/api/volumes", Access::read},
    {"GET", "/api/volumes/{}", Access::read},
    {"GET", "/api/volumes/{}/files", Access::read},
    {"GET", "/api/volumes/{}/content", Access::read},
    {"GET", "/api/volumes/{}/archive", Access::read},

    {"GET", "/api/artifacts", Access::read, true},
    {"GET", "/api/artifacts/{}", Access::read, true},
    {"GET", "/api/artifacts/{}/content", Access::read, true},
    {"DELETE", "/api/artifacts/{}", Access::write, true},
};

struct ScopeRow {
  std::string_view prefix;
  Scope scope;
};
constexpr ScopeRow kScopes[] = {
    {"/metrics", Scope::metrics},
    {"/admin", Scope::admin},
    {"/api/volumes", Scope::volumes},
    {"/api/artifacts", Scope::artifacts},
    {"/api/webhooks", Scope::webhooks},
    {"/api/registry", Scope::registry},
    {"/api/sessions/{}/artifacts", Scope::artifacts},
};

bool role_allows(Access access, Role role) {
  switch (access) {
    case Access::open:
    case Access::read: return true;
    case Access::write: return role == Role::user || role == Role::admin;
    case Access::admin: return role == Role::admin;
  }
  return false;
}

[[noreturn]] void refuse(const std::string& text) { throw http::HttpError{403, text}; }

}  // namespace

Rule rule_of(std::string_view method, std::string_view pattern) {
  Rule rule;
  // Whatever is below a session is about it.
  rule.in_session = pattern.starts_with("/api/sessions/{}/");
  if (pattern.starts_with("/admin")) rule.access = Access::admin;
  for (const Row& row : kRows) {
    if (row.method != method || row.pattern != pattern) continue;
    rule.access = row.access;
    rule.in_session = row.in_session;
    rule.whole_server = row.whole_server;
  }
  for (const ScopeRow& row : kScopes) {
    if (pattern.starts_with(row.prefix)) rule.scope = row.scope;
  }
  return rule;
}

void check_rule(const Rule& rule, const auth::Principal& who) {
  if (rule.access == Access::open) return;
  if (who.stranger) refuse("nobody may do this without a key");
  if ((who.scopes & static_cast<auth::Scopes>(rule.scope)) == 0) {
    refuse("this key may not do this: its scopes are " + auth::to_text(who.scopes));
  }
  if (!who.session.empty() && !rule.in_session) {
    refuse("this token is for one session, and this is about more than that: use an API key");
  }
  if (!role_allows(rule.access, who.role)) {
    refuse("this key may not do this: its role is " + std::string{auth::name_of(who.role)} +
           ", and this is for " + (rule.access == Access::admin ? "admin" : "user or admin"));
  }
  if (rule.whole_server && !who.operates()) {
    refuse("this is about the whole server: only keys of the default tenant may do it");
  }
}

}  // namespace tb::api
