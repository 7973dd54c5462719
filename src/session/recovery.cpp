// SPDX-License-Identifier: Apache-2.0
// What an earlier server left: sessions of the store, sandboxes of the keeper, and what only one
// of the two knows.
#include "base/error.h"
#include "base/log.h"
#include "session/label.h"
#include "session/sessions.h"

namespace tb::session {
namespace {

// Written by us, read back as something else: such a session might never end.
bool sound(const StoredSession& stored) {
  constexpr Milliseconds kLongest = std::chrono::hours{24} * 365 * 10;
  return stored.idle > Milliseconds{0} && stored.idle <= kLongest;
}

}  // namespace

awaitable<void> Sessions::open() {
  if (shared_) {
    // What others have is found when it is asked for.
    tasks_.spawn("keep used sessions alive", [this] { return keep_used_alive(); });
    pool_.open();
    co_return;
  }
  Known known;
  for (StoredSession& stored : store_.sessions()) {
    const std::string id = stored.id;
    known.emplace(id, std::move(stored));
  }
  std::vector<sandbox::Found> all = co_await provider_.list();
  std::vector<std::string> ids;
  for (const sandbox::Found& found : all) ids.push_back(found.id);
  // First: a thread of theirs may have another session by now.
  co_await drop_without_files(known, ids);
  // All at once: one that does not answer keeps nobody waiting for long.
  Signal done{executor_};
  TaskGroup tasks{executor_, [](const std::string&, std::exception_ptr) {}};
  std::size_t left = all.size();
  for (sandbox::Found& found : all) {
    tasks.spawn("adopt", [&, found = std::move(found)]() -> awaitable<void> {
      try {
        co_await adopt(found, known);
      } catch (const std::exception& error) {
        events_.session_adoption_failed({.session = found.id}, error.what());
      }
      if (--left == 0) done.notify_all();
    });
  }
  while (left > 0) co_await done.wait();
  co_await tasks.close();
  tasks_.spawn("keep used sessions alive", [this] { return keep_used_alive(); });
  pool_.open();
}

// The keeper's label knows whose it is even if the store was lost; the store knows more.
std::shared_ptr<Session> Sessions::recall(const sandbox::Found& found, const Known& known) const {
  std::optional<StoredSession> stored = from_label(found.label);
  const auto kept = known.find(found.id);
  if (kept != known.end() && sound(kept->second)) stored = kept->second;
  if (!stored) return nullptr;
  const policy::Policy* policy = policies_.find(stored->policy);
  if (!policy) {
    // It was made under rules that are not known any more: better too strict than too loose.
    log(LogLevel::warning, "policy_unknown",
        {{"session", found.id.substr(0, 12)}, {"policy", stored->policy}, {"instead", "strict"}});
    policy = &policy_named("strict");
  }
  auto session = std::shared_ptr<Session>(
      new Session{found.id,
                  {stored->thread, stored->user, stored->policy, stored->idle},
                  *policy,
                  stored->created,
                  stored->last_activity});
  return session;
}

std::shared_ptr<Session> Sessions::remember(const sandbox::Found& found) {
  if (auto session = find(found.id)) return session;
  const Known nothing;
  std::shared_ptr<Session> session = recall(found, nothing);
  if (!session) return nullptr;
  if (find_thread(session->spec.thread)) session->spec.thread.clear();
  insert(session);
  return session;
}

awaitable<std::shared_ptr<sandbox::Sandbox>> Sessions::reach(const sandbox::Found& found) {
  try {
    if (found.alive) co_return co_await provider_.adopt(found);
  } catch (const std::exception& error) {
    // A session whose sandbox is lost still has its files.
    events_.session_adoption_failed({.session = found.id}, error.what());
  }
  co_return nullptr;
}

// Of processes that go on, and of those that ended without a server.
awaitable<void> Sessions::expect_ends(std::shared_ptr<Session> session) {
  const std::shared_ptr<sandbox::Sandbox> sandbox = session->sandbox;
  if (!sandbox || !notifier_) co_return;
  for (const auto& process : sandbox->processes()) {
    if (!process->info().notify_url.empty()) {
      co_await notifier_->expect(session, sandbox, process);
    }
  }
}

awaitable<void> Sessions::adopt(sandbox::Found found, const Known& known) {
  const std::shared_ptr<Session> session = recall(found, known);
  if (!session) {
    // A ready one is as good as new if it is what this server would make.
    const bool ready = found.alive && pool_.would_make(found.label);
    std::shared_ptr<sandbox::Sandbox> box;
    if (ready) box = co_await reach(found);
    if (box) {
      pool_.add_ready(std::move(box));
      co_return;
    }
    log(LogLevel::info, "sandbox_orphan_removed", {{"sandbox", found.id.substr(0, 12)}});
    co_await provider_.destroy(found.id);
    co_return;
  }
  session->sandbox = co_await reach(found);
  if (session->sandbox) {
    pool_.count_used();
    for (const auto& process : session->sandbox->processes()) {
      if (process->exit()) continue;  // counted by who saw it end
      events_.command_started(*process, session->who(), process->info().command);
    }
  }
  if (session->sandbox && !from_label(found.label)) {
    // Its server died between the two.
    provider_.assign(*session->sandbox, to_label(to_stored(*session)), session->spec.idle);
  }
  if (find_thread(session->spec.thread)) session->spec.thread.clear();
  insert(session);
  events_.session_adopted(session->who(), session->sandbox != nullptr);
  co_await expect_ends(session);
  if (known.contains(found.id)) co_return;
  log(LogLevel::warning, "session_restored_from_label", {{"session", session->id.substr(0, 12)}});
  // If it can't be written, the label brings it back the next time too.
  StoredSession stored = to_stored(*session);
  co_await store_.put(std::move(stored));
}

// A store that fails tries again; if we die before, the next start finds that there are no files.
awaitable<void> Sessions::drop_row(std::string id) {
  try {
    co_await store_.remove(id);
  } catch (const Error& error) {
    log(LogLevel::warning, "store_removal_failed",
        {{"session", id.substr(0, 12)}, {"error", error.what()}});
  }
}

// Ended while no server was there: the files are gone with the sandbox.
awaitable<void> Sessions::drop_without_files(const Known& known,
                                             const std::vector<std::string>& found) {
  for (const auto& [id, stored] : known) {
    if (std::find(found.begin(), found.end(), id) != found.end()) continue;
    co_await drop_row(id);
    const Who who{stored.user, stored.thread, id};
    const auto age = std::chrono::system_clock::now() - stored.created;
    events_.session_expired(who, std::chrono::duration_cast<Milliseconds>(age));
    log(LogLevel::info, "session_orphan_removed", {{"session", id.substr(0, 12)}});
  }
}

}  // namespace tb::session
