// SPDX-License-Identifier: Apache-2.0
// A session as bodies describe it.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "api/service.h"

namespace tb::api {

// `thread_id`, `user_id`, `policy` and `timeout_minutes`; without the last one `idle`. Throws
// HttpError 400.
// `volumes: [{name, path, read_only}]`.
std::vector<storage::VolumeUse> read_volumes(const boost::json::object& body);

session::SessionSpec read_session(const boost::json::object& body, const Service& service,
                                  const Call& call, Milliseconds idle);

// What a body or a query calls a thread, a user, or one of the registry. Throws HttpError 400.
void check_name(const std::string& name, const char* field);

// Of one that began with files that were kept before: from when they are.
void tell_files_age(boost::json::object& body, const session::Session& session);

}  // namespace tb::api
