// SPDX-License-Identifier: Apache-2.0
// What listeners are told, made only when one of them wants it.
#include "session/listener.h"

#include <algorithm>

#include "base/utf8.h"

namespace tb::session {
namespace json = boost::json;
namespace {

using WallTime = std::chrono::system_clock::time_point;

constexpr std::size_t kCommandCharacters = 4096;
constexpr std::size_t kErrorCharacters = 300;

std::string text_of(std::string_view text, std::size_t characters) {
  return to_utf8(std::string{first_characters(text, characters)});
}

void add_command(json::object& data, std::string_view command) {
  const std::string_view shown = first_characters(command, kCommandCharacters);
  data["command"] = to_utf8(std::string{shown});
  data["command_truncated"] = shown.size() < command.size();
}

// Process ids begin anew when a session's sandbox does, so the time of its start belongs to it.
std::string key_of(const Who& who, const Ran& ran) {
  if (ran.process == 0) return {};
  const auto us =
      std::chrono::duration_cast<std::chrono::microseconds>(ran.started.time_since_epoch());
  return std::string{who.session} + " " + std::to_string(ran.process) + " " +
         std::to_string(us.count());
}

}  // namespace

std::optional<Happening> find_happening(std::string_view name) {
  const auto* const found = std::find(kHappeningNames.begin(), kHappeningNames.end(), name);
  if (found == kHappeningNames.end()) return std::nullopt;
  return static_cast<Happening>(found - kHappeningNames.begin());
}

void Events::about(const Who& who) const {
  for (Listener* one : listeners_) one->about(who);
}

void Events::asked_for(const Who& who, std::string_view command) const {
  for (Listener* one : listeners_) one->asked_for(who, command);
}

template <class Fill>
void Events::announce(Happening what, const Who& who, const std::string& key, const When& when,
                      Fill fill) const {
  const auto wants = [&](const Listener* one) { return one->wants(what); };
  if (std::none_of(listeners_.begin(), listeners_.end(), wants)) return;
  Told told;
  told.what = what;
  told.tenant = who.tenant;
  told.session = who.session;
  told.thread = who.thread;
  told.key = key;
  told.at = when.at;
  told.found = when.found;
  told.data["session_id"] = text_of(who.session, who.session.size());
  told.data["thread_id"] = text_of(who.thread, who.thread.size());
  told.data["user_id"] = text_of(who.user, who.user.size());
  fill(told.data);
  for (Listener* one : listeners_) {
    if (one->wants(what)) one->happened(told);
  }
}

void Events::announce_session(Happening what, const Who& who, Milliseconds time,
                              const When& when) const {
  const char* name = what == Happening::session_created ? "duration_ms" : "age_ms";
  announce(what, who, std::string{who.session}, when,
           [&](json::object& data) { data[name] = time.count(); });
}

void Events::announce_end(const Who& who, std::string_view command, const sandbox::Exit& exit,
                          const Ran& ran, const When& when) const {
  const Happening what = exit.code == 0 ? Happening::command_finished : Happening::command_failed;
  announce(what, who, key_of(who, ran), when, [&](json::object& data) {
    data["process_id"] = ran.process == 0 ? json::value(nullptr) : json::value(ran.process);
    add_command(data, command);
    data["exit_code"] = exit.code;
    data["cause"] = sandbox::name_of(exit.cause);
    data["duration_ms"] = std::chrono::duration_cast<Milliseconds>(exit.wall).count();
    data["error"] = nullptr;
  });
}

void Events::announce_failure(Happening what, const Who& who, std::string_view command,
                              std::string_view error, std::string_view reason) const {
  announce(what, who, {}, {}, [&](json::object& data) {
    data["process_id"] = nullptr;
    add_command(data, command);
    if (what == Happening::command_refused) {
      data["reason"] = reason;
    } else {
      data["exit_code"] = nullptr;
      data["cause"] = reason;
      data["duration_ms"] = 0;
    }
    data["error"] = text_of(error, kErrorCharacters);
  });
}

void Events::announce_limit(const Who& who, Limit limit, const Ran& ran, const When& when) const {
  const std::string_view name = kLimitNames[static_cast<std::size_t>(limit)];
  std::string key = key_of(who, ran);
  if (!key.empty()) key.append(" ").append(name);
  announce(Happening::limit_exceeded, who, key, when, [&](json::object& data) {
    data["limit"] = name;
    data["process_id"] = ran.process == 0 ? json::value(nullptr) : json::value(ran.process);
  });
}

void Events::announce_artifact(const Who& who, std::string_view id, std::string_view name,
                               Bytes size) const {
  announce(Happening::artifact_kept, who, std::string{id}, {}, [&](json::object& data) {
    data["artifact_id"] = id;
    data["name"] = text_of(name, name.size());
    data["size_bytes"] = size.count;
  });
}

void Events::session_found(const Who& who, WallTime created) {
  announce_session(Happening::session_created, who, Milliseconds{0}, {created, true});
}

void Events::command_found(const sandbox::Process& process, const Who& who) {
  if (!process.exit()) return;
  const sandbox::Exit& exit = *process.exit();
  const Ran ran{process.id(), process.info().started};
  const When when{ran.started + std::chrono::duration_cast<WallTime::duration>(exit.wall), true};
  announce_end(who, process.info().command, exit, ran, when);
  if (exit.cause == sandbox::Cause::timeout) {
    announce_limit(who, Limit::command_timeout, ran, when);
  }
  for (const std::string& name : exit.limits_hit) {
    const auto* const found = std::find(kLimitNames.begin(), kLimitNames.end(), name);
    if (found == kLimitNames.end()) continue;
    const auto limit = static_cast<Limit>(found - kLimitNames.begin());
    if (limit != Limit::cpu) announce_limit(who, limit, ran, when);
  }
}

}  // namespace tb::session
