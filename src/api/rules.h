// SPDX-License-Identifier: Apache-2.0
// Who may use which route: a table, and what a route gets that is not in it.
#pragma once

#include <string_view>

#include "auth/principal.h"

namespace tb::api {

enum class Access {
  open,   // everybody, with a key or without
  read,   // every role
  write,  // users and admins
  admin,  // admins
};

struct Rule {
  Access access = Access::write;
  auth::Scope scope = auth::Scope::sessions;  // that a narrowed key must have
  // Who may touch one session only may use it: it is about the session that it names.
  bool in_session = false;
  bool whole_server = false;  // it is about no tenant: for those of the default one
};

// A route that nobody wrote a rule for is for users, and not for tokens of one session.
Rule rule_of(std::string_view method, std::string_view pattern);

// Throws HttpError 403 that says what is missing.
void check_rule(const Rule& rule, const auth::Principal& who);

}  // namespace tb::api
