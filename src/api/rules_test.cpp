// SPDX-License-Identifier: Apache-2.0
#include "api/rules.h"

#include <gtest/gtest.h>

#include "http/message.h"

namespace tb::api {
namespace {

using auth::Principal;
using auth::Role;

bool lets(const char* method, const char* pattern, const Principal& who) {
  try {
    check_rule(rule_of(method, pattern), who);
  } catch (const http::HttpError& error) {
    EXPECT_EQ(error.status(), 403);
    return false;
  }
  return true;
}

Principal of(Role role, std::string tenant = "acme") {
  Principal who;
  who.role = role;
  who.tenant = std::move(tenant);
  return who;
}

TEST(Rules, ARouteThatSaysNothingIsForUsers) {
  for (const char* method : {"GET", "POST", "DELETE", "PUT"}) {
    EXPECT_FALSE(lets(method, "/new/thing", of(Role::readonly)));
    EXPECT_TRUE(lets(method, "/new/thing", of(Role::user)));
    EXPECT_TRUE(lets(method, "/new/thing", of(Role::admin)));
  }
  EXPECT_FALSE(lets("GET", "/admin/new", of(Role::user)));
  EXPECT_TRUE(lets("GET", "/admin/new", of(Role::admin)));
}

TEST(Rules, ReadersReadAndNothingElse) {
  const Principal reader = of(Role::readonly);
  EXPECT_TRUE(lets("GET", "/api/sessions/{}", reader));
  EXPECT_TRUE(lets("POST", "/download_file", reader));
  EXPECT_FALSE(lets("POST", "/execute", reader));
  EXPECT_FALSE(lets("GET", "/api/sessions/{}/attach", reader)) << "it starts a command";
  EXPECT_FALSE(lets("GET", "/api/sessions/{}/processes/{}/attach", reader)) << "it types";
}

TEST(Rules, TheWholeServerIsForThoseWhoRunIt) {
  EXPECT_TRUE(lets("GET", "/metrics", of(Role::readonly, "")));
  EXPECT_FALSE(lets("GET", "/metrics", of(Role::admin, "acme")));
}

TEST(Rules, ATokenOfOneSessionStaysThere) {
  Principal who = of(Role::user);
  who.session = "s";
  EXPECT_TRUE(lets("POST", "/execute", who));
  EXPECT_TRUE(lets("POST", "/api/sessions/{}/processes", who));
  EXPECT_TRUE(lets("GET", "/api/sessions/{}/files/list", who));
  for (const char* pattern : {"/create_session", "/api/sessions", "/api/volumes", "/new/thing"}) {
    EXPECT_FALSE(lets("POST", pattern, who)) << pattern;
  }
  who.tenant = "";
  EXPECT_FALSE(lets("GET", "/metrics", who));
}

TEST(Rules, AScopeNarrowsWhatARoleMay) {
  Principal who = of(Role::admin);
  who.scopes = static_cast<auth::Scopes>(auth::Scope::artifacts);
  EXPECT_TRUE(lets("GET", "/api/artifacts", who));
  EXPECT_TRUE(lets("POST", "/api/sessions/{}/artifacts", who));
  EXPECT_FALSE(lets("GET", "/api/sessions", who));
  EXPECT_FALSE(lets("GET", "/api/volumes", who));
}

TEST(Rules, StrangersGetWhatIsOpen) {
  Principal who;
  who.stranger = true;
  EXPECT_TRUE(lets("GET", "/health", who));
  EXPECT_FALSE(lets("GET", "/api/registry", who));
  EXPECT_FALSE(lets("GET", "/metrics", who));
}

}  // namespace
}  // namespace tb::api
