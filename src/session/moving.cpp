// SPDX-License-Identifier: Apache-2.0
// A session that goes to another server, or comes from one.
#include "base/error.h"
#include "base/log.h"
#include "session/label.h"
#include "session/sessions.h"

namespace tb::session {
namespace {

constexpr std::size_t kMostMoved = 10'000;  // whose new place is remembered

}  // namespace

bool Sessions::hold(const std::shared_ptr<Session>& session) {
  if (session->moving || in_use(*session) || waking_.contains(session->id)) return false;
  if (find(session->id) != session) return false;
  session->moving = true;
  return true;
}

void Sessions::resume(const std::shared_ptr<Session>& session) { session->moving = false; }

awaitable<void> Sessions::leave(std::shared_ptr<Session> session, Destination to) {
  if (find(session->id) != session) co_return;
  erase(session);
  take_sandbox(*session);
  gone_.notify_all();
  if (moved_.size() >= kMostMoved) moved_.clear();
  log(LogLevel::info, "session_moved_on",
      {{"session", session->id.substr(0, 12)}, {"worker", to.worker}});
  moved_[session->id] = std::move(to);
  co_await drop_row(session->id);
  co_await destroy(session->spec.provider, session->id);
  record("session_moved", *session);
  note_end(*session, "moved");
}

awaitable<std::shared_ptr<Session>> Sessions::expect(std::string id, std::string label) {
  const Known nothing;
  const Left left{kNative, {id, std::move(label), false}};
  const std::shared_ptr<Session> session = recall(left, nothing);
  if (!session) throw Error{Code::invalid, "this is no session's label"};
  // Volumes and directories belong to their machine.
  if (!session->spec.mounts.empty()) throw Error{Code::invalid, "sessions with mounts don't move"};
  if (find(id)) throw Error{Code::conflict, "the session is here already"};
  session->moving = true;
  pool_.reserve();
  std::exception_ptr failure;
  try {
    co_await pool_.give_way();
    sandbox::SandboxSpec spec = Pool::spec_for(session->kind);
    spec.id = id;  // without a label: it goes with us if it does not arrive
    session->sandbox = co_await providers_.get(session->spec.provider).create(std::move(spec));
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    pool_.gone();
    std::rethrow_exception(failure);
  }
  co_return session;
}

awaitable<void> Sessions::arrive(std::shared_ptr<Session> session,
                                 std::function<awaitable<std::uint64_t>()> hand_over) {
  const SessionSpec& spec = session->spec;
  const bool taken = find_thread(spec.thread, spec.tenant) ||
                     (!spec.thread.empty() && creating_.contains(session->thread_key()));
  if (!session->sandbox || taken) {
    co_await turn_away(session);
    throw Error{Code::conflict, "the new sandbox has ended again, or the thread has another one"};
  }
  co_await keep(session);
  std::exception_ptr failure;
  try {
    session->claim = co_await hand_over();
  } catch (...) {
    failure = std::current_exception();
  }
  if (failure) {
    erase(session);
    co_await drop_row(session->id);
    co_await turn_away(session);
    std::rethrow_exception(failure);
  }
  moved_.erase(session->id);
  session->moving = false;
  insert(session);
  providers_.get(session->spec.provider)
      .assign(*session->sandbox, to_label(to_stored(*session)), session->spec.idle);
  touch(*session);
  record("session_arrived", *session);
}

awaitable<void> Sessions::turn_away(std::shared_ptr<Session> session) {
  take_sandbox(*session);
  co_await destroy(session->spec.provider, session->id);
}

}  // namespace tb::session
