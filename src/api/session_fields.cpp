// SPDX-License-Identifier: Apache-2.0
#include "api/session_fields.h"

#include <algorithm>
#include <cmath>

#include "api/fields.h"
#include "base/iso8601.h"

namespace tb::api {
namespace json = boost::json;
namespace {

constexpr std::size_t kMaxName = 512;  // of a thread or a user

}  // namespace

void check_name(const std::string& name, const char* field) {
  if (name.size() > kMaxName) {
    throw http::HttpError{400, std::string{"\""} + field + "\" is longer than 512 bytes"};
  }
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      throw http::HttpError{400, std::string{"\""} + field + "\" contains control characters"};
    }
  }
}

std::vector<storage::VolumeUse> read_volumes(const json::object& body) {
  std::vector<storage::VolumeUse> uses;
  const json::value* list = body.if_contains("volumes");
  if (!list || list->is_null()) return uses;
  if (!list->is_array()) throw http::HttpError{400, "\"volumes\" must be a list"};
  for (const json::value& item : list->get_array()) {
    const json::object* object = item.if_object();
    if (!object) {
      throw http::HttpError{400, "each of \"volumes\" must be an object with name and path"};
    }
    storage::VolumeUse use;
    use.name = find_text(*object, "name").value_or("");
    use.path = find_text(*object, "path").value_or("");
    use.read_only = find_flag(*object, "read_only").value_or(false);
    if (!storage::is_volume_name(use.name) || use.path.empty()) {
      throw http::HttpError{400,
                            "each of \"volumes\" needs the \"name\" of a volume and a \"path\""};
    }
    uses.push_back(std::move(use));
  }
  return uses;
}

session::SessionSpec read_session(const json::object& body, const Service& service,
                                  const Call& call, Milliseconds idle) {
  session::SessionSpec spec;
  spec.tenant = call.principal.tenant;
  spec.key = call.principal.key;
  spec.thread = find_text(body, "thread_id").value_or("");
  spec.user = find_text(body, "user_id").value_or("");
  check_name(spec.thread, "thread_id");
  check_name(spec.user, "user_id");
  spec.policy = find_text(body, "policy").value_or("");
  const auto& allowed = service.policies;
  if (!spec.policy.empty() && !allowed.empty() &&
      std::find(allowed.begin(), allowed.end(), spec.policy) == allowed.end()) {
    throw http::HttpError{
        400, "This server does not let clients choose the policy \"" + spec.policy + "\""};
  }
  spec.volumes = read_volumes(body);
  const auto scope = static_cast<auth::Scopes>(auth::Scope::volumes);
  if (!spec.volumes.empty() && (call.principal.scopes & scope) == 0) {
    throw http::HttpError{403, "this key may not use volumes: its scopes are " +
                                   auth::to_text(call.principal.scopes)};
  }
  spec.idle = idle;
  if (const auto minutes = find_number(body, "timeout_minutes")) {
    constexpr double kWeek = 7 * 24 * 60;
    if (!(*minutes > 0) || *minutes > kWeek) {
      throw http::HttpError{400, "\"timeout_minutes\" must be more than 0 and at most 10080"};
    }
    // Never 0, which would mean for ever.
    spec.idle = Milliseconds{std::max<std::int64_t>(1, std::llround(*minutes * 60000))};
  }
  return spec;
}

void tell_files_age(json::object& body, const session::Session& session) {
  if (!session.files_of) return;
  const auto age = session.created - *session.files_of;
  body["files_kept_at"] = iso8601(*session.files_of);
  body["files_age_seconds"] =
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::seconds>(age).count());
}

}  // namespace tb::api
