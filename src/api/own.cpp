// SPDX-License-Identifier: Apache-2.0
// What belongs to whoever asks. The only file of api/ that looks for sessions, threads, logs and
// artifacts by their names (tests/tidy/check.py).
#include "api/service.h"

namespace tb::api {
namespace {

bool may_touch(const auth::Principal& who, const std::string& session) {
  return who.session.empty() || who.session == session;
}

// What stays of a session: who may touch that session alone ends with it.
bool may_touch_kept(const Service& service, const auth::Principal& who,
                    const std::string& session) {
  return may_touch(who, session) && (who.session.empty() || service.sessions.find(session));
}

bool owns(const auth::Principal& who, const session::Session& session) {
  return session.spec.tenant == who.tenant && may_touch(who, session.id);
}

std::shared_ptr<session::Session> if_owned(const Service& service, const Call& call,
                                           std::shared_ptr<session::Session> session) {
  if (!session || !owns(call.principal, *session)) return nullptr;
  service.sessions.events().about(session->who(call.request_id));
  return session;
}

}  // namespace

std::shared_ptr<session::Session> find_own_session(const Service& service, const Call& call,
                                                   const std::string& id) {
  return if_owned(service, call, service.sessions.find(id));
}

awaitable<std::shared_ptr<session::Session>> find_own_thread(const Service& service,
                                                             const Call& call, std::string thread) {
  const auth::Principal& who = call.principal;
  // No thread is named so; what looks for it would find one of another tenant.
  if (thread.find('\0') != thread.npos) co_return nullptr;
  if (auto session = service.sessions.find_thread(thread, who.tenant)) {
    co_return if_owned(service, call, session);
  }
  if (!service.directory) co_return nullptr;
  try {
    std::string key = session::thread_key(who.tenant, thread);
    co_await service.directory->check_nobody_has(std::move(key));
  } catch (const session::Elsewhere& elsewhere) {
    if (may_touch(who, elsewhere.session())) throw;
  }
  co_return nullptr;
}

std::shared_ptr<session::Session> get_own_session(const Service& service, const Call& call) {
  if (auto session = find_own_session(service, call, call.captured.at(0))) return session;
  throw session::expired();
}

std::vector<std::shared_ptr<session::Session>> own_sessions(const Service& service,
                                                            const Call& call) {
  std::vector<std::shared_ptr<session::Session>> sessions = service.sessions.all();
  std::erase_if(sessions, [&](const auto& session) { return !owns(call.principal, *session); });
  return sessions;
}

awaitable<void> remove_own_session(Service& service, const Call& call, std::string id) {
  if (!find_own_session(service, call, id)) co_return;
  co_await service.sessions.remove(std::move(id));
}

awaitable<std::string> own_log(Service& service, const Call& call, std::string id,
                               std::size_t most) {
  if (!may_touch_kept(service, call.principal, id)) co_return std::string{};
  co_return co_await service.logs->read(std::move(id), call.principal.tenant, most);
}

std::vector<storage::Artifact> own_artifacts(const Service& service, const Call& call,
                                             const std::string& session, const std::string& user) {
  std::vector<storage::Artifact> kept =
      service.artifacts->list(call.principal.tenant, session, user);
  std::erase_if(
      kept, [&](const auto& one) { return !may_touch_kept(service, call.principal, one.session); });
  return kept;
}

storage::Artifact get_own_artifact(const Service& service, const Call& call) {
  const std::string& id = call.captured.at(0);
  std::optional<storage::Artifact> artifact = service.artifacts->find(id);
  const auth::Principal& who = call.principal;
  if (artifact && artifact->tenant == who.tenant &&
      may_touch_kept(service, who, artifact->session)) {
    return std::move(*artifact);
  }
  throw Error{Code::not_found, "Artifact not found: " + id.substr(0, 64)};
}

}  // namespace tb::api
