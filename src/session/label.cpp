// SPDX-License-Identifier: Apache-2.0
#include "session/label.h"

#include <algorithm>
#include <boost/json.hpp>

namespace tb::session {
namespace json = boost::json;

constexpr std::size_t kMaxLabel = 4096;  // of the keeper: jail/wire.h

StoredSession to_stored(const Session& session) {
  return {session.id,
          session.spec.thread,
          session.spec.user,
          session.spec.policy,
          session.spec.idle,
          session.created,
          session.last_activity,
          session.spec.provider,
          session.spec.environment,
          session.spec.agent,
          session.spec.mounts,
          session.claim,
          session.spec.tenant,
          session.spec.key};
}

namespace {

json::array render(const std::vector<sandbox::Mount>& mounts) {
  json::array list;
  for (const sandbox::Mount& mount : mounts) {
    list.push_back({{"source", mount.source},
                    {"target", mount.target},
                    {"read_only", mount.read_only},
                    {"host", mount.host_directory},
                    {"name", mount.name}});
  }
  return list;
}

std::vector<sandbox::Mount> read_mounts(const json::object& label) {
  std::vector<sandbox::Mount> mounts;
  const json::value* list = label.if_contains("mounts");
  if (!list || !list->is_array()) return mounts;
  for (const json::value& item : list->get_array()) {
    const json::object* object = item.if_object();
    if (!object) continue;
    const auto text = [&](const char* key) -> std::string {
      const json::value* found = object->if_contains(key);
      return found && found->is_string() ? std::string{found->get_string()} : std::string{};
    };
    const auto flag = [&](const char* key) {
      const json::value* found = object->if_contains(key);
      return found && found->is_bool() && found->get_bool();
    };
    mounts.push_back(
        {text("source"), text("target"), flag("read_only"), flag("host"), text("name")});
  }
  return mounts;
}

}  // namespace

std::string to_label(const StoredSession& session) {
  const auto seconds = [](WallTime time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  };
  json::object label{{"session", session.id},
                     {"thread", session.thread},
                     {"user", session.user},
                     {"tenant", session.tenant},
                     {"key", session.key},
                     {"policy", session.policy},
                     {"provider", session.provider},
                     {"environment", session.environment},
                     {"agent", session.agent},
                     {"mounts", render(session.mounts)},
                     {"idle_ms", session.idle.count()},
                     {"created", seconds(session.created)},
                     {"claim", session.claim}};
  std::string text = json::serialize(label);
  if (text.size() <= kMaxLabel) return text;
  // Whom it counts for matters less than that it is there.
  label.erase("key");
  return json::serialize(label);
}

std::optional<StoredSession> from_label(const std::string& label) {
  boost::system::error_code error;
  const json::value value = json::parse(label, error);
  const json::object* object = error ? nullptr : value.if_object();
  if (!object) return std::nullopt;
  const auto text = [&](const char* key) -> std::string {
    const json::value* found = object->if_contains(key);
    return found && found->is_string() ? std::string{found->get_string()} : std::string{};
  };
  const auto number = [&](const char* key) -> std::int64_t {
    const json::value* found = object->if_contains(key);
    return found && found->is_int64() ? found->get_int64() : 0;
  };
  StoredSession session;
  session.id = text("session");
  session.thread = text("thread");
  session.user = text("user");
  session.tenant = text("tenant");
  session.key = text("key");
  session.policy = text("policy");
  session.provider = text("provider");
  session.environment = text("environment");
  session.agent = text("agent");
  session.mounts = read_mounts(*object);
  session.claim = static_cast<std::uint64_t>(std::max<std::int64_t>(number("claim"), 0));
  session.idle = Milliseconds{number("idle_ms")};
  constexpr std::int64_t kLatest = 1ll << 32;  // far in the future, and no overflow
  session.created =
      WallTime{std::chrono::seconds{std::clamp<std::int64_t>(number("created"), 0, kLatest)}};
  session.last_activity = std::chrono::system_clock::now();
  if (session.id.empty() || session.idle.count() <= 0) return std::nullopt;
  return session;
}

}  // namespace tb::session
