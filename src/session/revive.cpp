// SPDX-License-Identifier: Apache-2.0
// Sandboxes that come back: after their end, or after another program had them.
#include "base/error.h"
#include "session/label.h"
#include "session/sessions.h"

namespace tb::session {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Milliseconds kClearing = 10s;
constexpr Milliseconds kLeast = 1s;

Milliseconds since(Clock::time_point start) {
  return std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
}

}  // namespace

// The way to every sandbox: what may not be begun is stopped here.
awaitable<void> Sessions::awake(std::shared_ptr<Session> session) {
  if (directory_) directory_->check_lease();
  if (session->moving) {
    throw Error{Code::unavailable, "the session is moving to another worker: ask again"};
  }
  const std::string& key = session->id;
  // It is brought back, or put away.
  for (auto under_way = waking_.find(key); under_way != waking_.end();) {
    const auto creation = under_way->second;
    co_await join(creation);
    under_way = waking_.find(key);
  }
  if (session->sandbox && session->sandbox->alive()) co_return;
  auto creation = std::make_shared<Creation>(executor_);
  waking_[key] = creation;
  try {
    co_await revive(session);
    creation->session = session;
  } catch (const std::exception& error) {
    creation->failure = std::current_exception();
    events_.session_revival_failed(session->who(), error.what());
  }
  creation->over = true;
  waking_.erase(key);
  creation->done.notify_all();
  if (creation->failure) std::rethrow_exception(creation->failure);
}

awaitable<void> Sessions::revive(std::shared_ptr<Session> session) {
  const auto began = Clock::now();
  const Busy busy{*session};  // nobody lets go of it before it is here
  // Its PID 1 is dead, but the provider has not cleared it away yet: that comes first.
  auto cleared = [&session] { return session->sandbox == nullptr; };
  co_await gone_.until(cleared, kClearing);
  if (find(session->id) != session) throw expired();
  if (std::exchange(session->sandbox, nullptr)) pool_.gone();  // told before it was known as ours
  const bool slept = std::exchange(session->keeps_place, false);
  if (!slept) pool_.reserve();
  std::shared_ptr<sandbox::Sandbox> sandbox;
  try {
    if (!slept) co_await pool_.give_way();
    sandbox = co_await bring_back(*session);
    if (!sandbox->alive()) throw Error{Code::unavailable, "the sandbox ended again at once"};
  } catch (const Error& error) {
    pool_.gone();
    if (error.code() != Code::conflict) throw;
    throw Error{Code::unavailable, "the sandbox has ended, but not gone"};
  }
  if (!find(session->id)) {
    // It was removed meanwhile: nothing of it may stay.
    pool_.gone();
    co_await destroy(session->spec.provider, session->id);
    throw expired();
  }
  session->sandbox = std::move(sandbox);
  session->asleep = nullptr;
  if (slept) {
    // Who only looked must not lengthen its life.
    const auto left =
        session->spec.idle - since(std::max(session->renewed, session->kept_awake - sleep_));
    providers_.find(session->spec.provider)
        ->renew(*session->sandbox, std::max<Milliseconds>(left, kLeast));
    session->kept_awake = Clock::now();
    events_.session_woken(session->who(), since(began));
    co_return;
  }
  events_.session_revived(session->who(), since(began));
  record("session_revived", *session);
}

// It may run already, made by another program.
awaitable<std::shared_ptr<sandbox::Sandbox>> Sessions::bring_back(const Session& session) {
  const std::string label = to_label(to_stored(session));
  sandbox::Provider& provider = providers_.get(session.spec.provider);
  sandbox::SandboxSpec spec = Pool::spec_for(session.kind);
  spec.id = session.id;
  spec.idle = session.spec.idle;
  spec.label = label;
  if (!shared_) co_return co_await provider.create(std::move(spec));
  for (int attempt = 0;; ++attempt) {
    try {
      sandbox::Found found{spec.id, label, true};
      co_return co_await provider.join(std::move(found));
    } catch (const Error& error) {
      if (error.code() != Code::not_found) throw;
    }
    try {
      sandbox::SandboxSpec again = spec;
      co_return co_await provider.create(std::move(again));
    } catch (const Error& error) {
      if (error.code() != Code::conflict || attempt == 2) throw;  // another one was faster
    }
  }
}

void Sessions::release(const std::shared_ptr<Session>& session) {
  const auto sandbox = std::exchange(session->sandbox, nullptr);
  if (!sandbox) return;
  pool_.gone();
  providers_.find(session->spec.provider)->release(*sandbox);
}

}  // namespace tb::session
