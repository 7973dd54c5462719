// SPDX-License-Identifier: Apache-2.0
// What keeps a session from being idle.
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "session/interpreters.h"
#include "session/sessions.h"

namespace tb::session {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kUsedPeriod = 1s;  // how often sessions in use are looked at
constexpr Milliseconds kUsedMargin = 3 * kUsedPeriod;
constexpr Milliseconds kTellDelay = 3ms;
constexpr Milliseconds kShortIdle = 1min;

}  // namespace

// By requests, or by commands that run: those of an earlier server too.
bool Sessions::in_use(const Session& session) {
  if (session.uses > 0) return true;
  if (!session.sandbox) return false;
  for (const auto& process : session.sandbox->running()) {
    if (!process->info().tag.starts_with(kInterpreterTag)) return true;
  }
  return false;
}

Use::Use(Sessions& sessions, std::shared_ptr<Session> session, bool renews)
    : sessions_(&sessions),
      session_(std::move(session)),
      sandbox_(session_->sandbox),
      renews_(renews) {
  if (!sandbox_) throw Error{Code::unavailable, "the sandbox ended again at once"};
  ++(renews_ ? session_->uses : session_->looks);
}

Use::~Use() {
  if (!session_) return;
  --(renews_ ? session_->uses : session_->looks);
  if (!renews_) return;
  if (sessions_->find(session_->id) == session_) sessions_->touch(*session_);
}

// Of those who waited for it together one may have passed it on already.
awaitable<void> Sessions::reach_sandbox(std::shared_ptr<Session> session) {
  do {
    co_await awake(session);
  } while (shared_ && !session->sandbox && find(session->id) == session);
}

awaitable<Use> Sessions::use(std::shared_ptr<Session> session) {
  co_await reach_sandbox(session);
  touch(*session, kUsedMargin);
  co_return Use{*this, std::move(session), true};
}

awaitable<Use> Sessions::look(std::shared_ptr<Session> session) {
  co_await reach_sandbox(session);
  co_return Use{*this, std::move(session), false};
}

awaitable<std::shared_ptr<sandbox::Shell>> Sessions::open_shell(std::shared_ptr<Session> session,
                                                                sandbox::ShellSpec spec, Who who) {
  sandbox::Command like;
  like.script = "true";
  like.env = spec.env;
  const Variables& variables = session->surroundings.variables;
  check(session->policy, like, who, variables);
  spec.env.insert(spec.env.begin(), variables.begin(), variables.end());
  const Use used = co_await use(session);
  co_return co_await used.sandbox().open_shell(std::move(spec));
}

// Others hear of it a little later: what is under way now, a command to its sandbox or an answer,
// need not wait for that, and one word is enough for the begin and the end of most commands.
void Sessions::touch(Session& session, Milliseconds more) {
  session.last_activity = std::chrono::system_clock::now();
  lengthen(session, more);
  session.worked_on = session.worked_on || more == Milliseconds{0};
  if (std::exchange(session.to_be_told, true)) return;
  touched_.push_back(session.id);
  const auto tell = [this, lives = std::weak_ptr{lives_}](auto...) {
    if (!lives.expired()) tell_touched();
  };
  // If we ended now, the keeper should not end it before the next server is there.
  const bool urgent =
      session.spec.idle < kShortIdle || Clock::now() - session.told > session.spec.idle / 4;
  if (urgent) {
    asio::post(executor_, tell);
  } else if (touched_.size() == 1) {
    touched_timer_.expires_after(kTellDelay);
    touched_timer_.async_wait(tell);
  }
}

void Sessions::tell_touched() {
  for (const std::string& id : std::exchange(touched_, {})) tell_touched(id);
}

void Sessions::tell_touched(const std::string& id) {
  const std::shared_ptr<Session> session = find(id);
  if (!session) return;
  session->to_be_told = false;
  session->told = Clock::now();
  const bool worked_on = std::exchange(session->worked_on, false);
  try {
    tell_keeper(*session);
  } catch (const Error& error) {
    // The keeper is gone, and soon so are we.
    log(LogLevel::warning, "session_not_renewed", {{"error", error.what()}});
  }
  store_.touch(session->id, session->last_activity);
  if (workspaces_ && worked_on) workspaces_->changed(session);
}

// The end of one request or command must not shorten the time that another has.
void Sessions::lengthen(Session& session, Milliseconds more) {
  const auto now = Clock::now();
  session.renewed = now;
  if (!in_use(session)) session.used_until = now;
  session.used_until = std::max(session.used_until, now + more);
}

void Sessions::tell_keeper(Session& session) {
  if (!session.sandbox) return;
  const auto used = std::chrono::ceil<Milliseconds>(session.used_until - session.renewed);
  providers_.find(session.spec.provider)->renew(*session.sandbox, session.spec.idle + used);
}

void Sessions::renew(Session& session, Milliseconds more) {
  lengthen(session, more);
  tell_keeper(session);
}

// A request, or a command, may take longer than its session may be idle.
awaitable<void> Sessions::keep_used_alive() {
  asio::steady_timer timer{executor_};
  for (;;) {
    timer.expires_after(kUsedPeriod);
    co_await timer.async_wait(asio::use_awaitable);
    for (const auto& [id, session] : sessions_) {
      const auto now = Clock::now();
      const bool due = now - session->renewed >= session->spec.idle / 4;
      if (!due && session->used_until <= now) continue;
      if (!in_use(*session)) {
        // A command did not start, or one of an earlier server has ended: nobody waited for that.
        if (session->used_until > now) renew(*session, Milliseconds{0});
      } else if (due) {
        renew(*session, kUsedMargin);
      }
    }
  }
}

}  // namespace tb::session
