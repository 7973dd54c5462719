// SPDX-License-Identifier: Apache-2.0
#include "api/trail.h"

#include <algorithm>
#include <array>

#include "audit/credentials.h"

namespace tb::api {
namespace {

using std::chrono::microseconds;

// What machines ask again and again, and what is the same for everybody.
constexpr std::array<std::string_view, 8> kUnrecorded{
    "/", "/health", "/healthz", "/readyz", "/metrics", "/docs", "/redoc", "/openapi.json"};

bool is_recorded(const Asked& asked) {
  const std::string& method = asked.request.method;
  if (method == "OPTIONS") return false;
  if (method != "GET" && method != "HEAD") return true;
  return std::find(kUnrecorded.begin(), kUnrecorded.end(), asked.pattern) == kUnrecorded.end();
}

// Paths that name a session name it first.
bool names_session(std::string_view pattern) {
  return pattern.starts_with("/api/sessions/{}") || pattern == "/status/{}";
}

// Who asks for what, from where.
audit::Entry entry_of(const Asked& asked) {
  const http::Request& request = asked.request;
  audit::Entry entry;
  entry.at = std::chrono::system_clock::now();
  entry.action = request.method + " ";
  entry.action += asked.pattern.empty() ? "(no route)" : asked.pattern;
  const auth::Principal& who = asked.principal;
  entry.tenant = who.tenant;
  entry.key = who.key;
  if (!who.key.empty() || !who.tenant.empty()) entry.role = auth::name_of(who.role);
  if (!who.session.empty()) entry.via = "session_token";
  entry.address = request.peer;
  if (const auto forwarded = request.headers.find("X-Forwarded-For")) entry.forwarded = *forwarded;
  if (!asked.captured.empty() && names_session(asked.pattern)) {
    entry.session = audit::without_credentials(asked.captured.front());
  }
  if (asked.pattern.empty()) entry.target = audit::without_credentials(request.target);
  entry.request = request.id;
  return entry;
}

}  // namespace

void Trail::began(const http::Request& request) { open_[request.id.data()]; }

Trail::Note* Trail::find(const session::Who& who) {
  const auto note = who.request.empty() ? open_.end() : open_.find(who.request.data());
  return note == open_.end() ? nullptr : &note->second;
}

void Trail::about(const session::Who& who) {
  Note* note = find(who);
  if (!note || !note->session.empty()) return;
  note->session = who.session;
  note->thread = who.thread;
  note->user = who.user;
}

void Trail::asked_for(const session::Who& who, std::string_view command) {
  Note* note = find(who);
  if (!note) return;
  about(who);
  note->command = command;
}

void Trail::opening(const Asked& asked) {
  audit::Entry entry = entry_of(asked);
  entry.result = "begun";
  log_.write(std::move(entry));
}

void Trail::ended(Asked& asked) {
  auto note = open_.extract(asked.request.id.data());
  if (!is_recorded(asked)) return;
  audit::Entry entry = entry_of(asked);
  entry.status = asked.status;
  entry.duration =
      std::chrono::duration_cast<microseconds>(std::chrono::steady_clock::now() - asked.began);
  if (!note.empty()) {
    if (!note.mapped().session.empty()) entry.session = std::move(note.mapped().session);
    entry.thread = std::move(note.mapped().thread);
    entry.user = std::move(note.mapped().user);
    entry.command = std::move(note.mapped().command);
  }
  log_.write(std::move(entry));
}

void Trail::happened(const session::Told& told) {
  audit::Entry entry;
  entry.at = told.at;
  entry.action = session::name_of(told.what);
  entry.result = "ok";
  entry.tenant = told.tenant;
  entry.session = told.session;
  entry.thread = told.thread;
  log_.write(std::move(entry));
}

}  // namespace tb::api
