// SPDX-License-Identifier: Apache-2.0
// Sandboxes that nobody uses are put away, and made again around their files when they are needed:
// what the kernel holds for one is more than all the rest of its session.
#include "base/error.h"
#include "session/sessions.h"

namespace tb::session {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kLookPeriod = 1s;

bool is_over(const sandbox::Process& process) {
  return process.exit() && process.output_ended(sandbox::Stream::out) &&
         process.output_ended(sandbox::Stream::err);
}

}  // namespace

// What is in its memory only the provider can tell.
bool Sessions::may_rest(const Session& session) const {
  const auto unused_since = std::max({session.renewed, session.used_until, session.kept_awake});
  if (Clock::now() - unused_since < sleep_) return false;
  if (!session.sandbox || !session.sandbox->alive()) return false;
  if (session.moving || session.looks > 0 || in_use(session)) return false;
  // Volumes are in use by others, too; and what is kept elsewhere is read out of the sandbox.
  if (!session.spec.mounts.empty() || workspaces_) return false;
  if (!session.sandbox->shells().empty()) return false;
  for (const auto& process : session.sandbox->processes()) {
    if (!is_over(*process)) return false;
  }
  return true;
}

awaitable<void> Sessions::rest(std::shared_ptr<Session> session) {
  if (find(session->id) != session || waking_.contains(session->id)) co_return;
  if (!may_rest(*session)) co_return;
  // Who wants it meanwhile waits for the end of this.
  auto under_way = std::make_shared<Creation>(executor_);
  under_way->session = session;
  waking_[session->id] = under_way;
  session->kept_awake = Clock::now();
  bool rests = false;
  try {
    rests = co_await providers_.get(session->spec.provider).rest(session->id);
  } catch (const Error& error) {
    events_.session_kept_awake(session->who(), error.what());
  }
  if (rests && session->sandbox) {
    session->asleep = std::exchange(session->sandbox, nullptr);
    session->keeps_place = true;
    events_.session_put_to_sleep(session->who());
  }
  under_way->over = true;
  waking_.erase(session->id);
  under_way->done.notify_all();
}

// One after the other: the provider has other things to do, too.
awaitable<void> Sessions::rest_unused() {
  asio::steady_timer timer{executor_};
  for (;;) {
    timer.expires_after(kLookPeriod);
    co_await timer.async_wait(asio::use_awaitable);
    std::vector<std::shared_ptr<Session>> due;
    for (const auto& [id, session] : sessions_) {
      if (may_rest(*session)) due.push_back(session);
    }
    for (const std::shared_ptr<Session>& session : due) co_await rest(session);
  }
}

}  // namespace tb::session
