// SPDX-License-Identifier: Apache-2.0
// What an earlier server left: sessions of the store, sandboxes of the keeper, and what only one
// of the two knows.
#include <algorithm>

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
  restock();
  std::vector<std::string> answered;
  std::vector<Left> all = co_await list_all(answered);
  // First: a thread of theirs may have another session by now.
  co_await drop_without_files(known, all, answered);
  remember_unreachable(known, answered);
  // All at once: one that does not answer keeps nobody waiting for long.
  Signal done{executor_};
  TaskGroup tasks{executor_, [](const std::string&, std::exception_ptr) {}};
  std::size_t left = all.size();
  for (Left& one : all) {
    tasks.spawn("adopt", [&, one = std::move(one)]() -> awaitable<void> {
      try {
        co_await adopt(one, known);
      } catch (const std::exception& error) {
        events_.session_adoption_failed({.session = one.found.id}, error.what());
      }
      if (--left == 0) done.notify_all();
    });
  }
  while (left > 0) co_await done.wait();
  co_await tasks.close();
  tasks_.spawn("keep used sessions alive", [this] { return keep_used_alive(); });
  if (sleep_ > Milliseconds{0}) tasks_.spawn("rest", [this] { return rest_unused(); });
  pool_.open();
}

// A provider that can't be reached keeps nobody else from starting.
awaitable<std::vector<Sessions::Left>> Sessions::list_all(std::vector<std::string>& answered) {
  std::vector<Left> all;
  for (const std::string& name : providers_.names()) {
    // Without it there is no server.
    const bool vital = name == kNative;
    std::exception_ptr failure;
    try {
      std::vector<sandbox::Found> found = co_await providers_.find(name)->list();
      answered.push_back(name);
      for (sandbox::Found& one : found) all.push_back({name, std::move(one)});
    } catch (const Error& error) {
      failure = std::current_exception();
      log(LogLevel::error, "provider_unreachable", {{"provider", name}, {"error", error.what()}});
    }
    if (failure && vital) std::rethrow_exception(failure);
  }
  co_return all;
}

// Their sandboxes may be there: they sleep until their provider is back.
void Sessions::remember_unreachable(const Known& known, const std::vector<std::string>& answered) {
  for (const auto& [id, stored] : known) {
    const std::string provider = stored.provider.empty() ? kNative : stored.provider;
    if (std::find(answered.begin(), answered.end(), provider) != answered.end()) continue;
    Left left;
    left.provider = provider;
    left.found.id = id;
    if (const auto session = recall(left, known)) insert(session);
  }
}

// The keeper's label knows whose it is even if the store was lost; the store knows more.
std::shared_ptr<Session> Sessions::recall(const Left& left, const Known& known) const {
  const sandbox::Found& found = left.found;
  std::optional<StoredSession> stored = from_label(found.label);
  const std::uint64_t claim = stored ? stored->claim : 0;
  std::vector<sandbox::Mount> mounts;
  const std::string key = stored ? stored->key : "";
  if (stored) mounts = std::move(stored->mounts);
  const auto kept = known.find(found.id);
  if (kept != known.end() && sound(kept->second)) stored = kept->second;
  if (!stored) return nullptr;
  const policy::Policy* policy = registry_.policies().find(stored->policy);
  if (!policy) {
    // It was made under rules that are not known any more: better too strict than too loose.
    log(LogLevel::warning, "policy_unknown",
        {{"session", found.id.substr(0, 12)}, {"policy", stored->policy}, {"instead", "strict"}});
    policy = &policy_named("strict");
  }
  SessionSpec spec;
  spec.thread = stored->thread;
  spec.user = stored->user;
  spec.policy = stored->policy;
  spec.idle = stored->idle;
  spec.provider = left.provider;
  spec.environment = stored->environment;
  spec.agent = stored->agent;
  spec.mounts = std::move(mounts);
  spec.tenant = stored->tenant;
  spec.key = key;
  if (logs_ && !spec.environment.empty()) logs_->resume(found.id);
  auto session = std::shared_ptr<Session>(new Session{found.id, std::move(spec), *policy});
  session->claim = claim;
  session->created = stored->created;
  session->last_activity = stored->last_activity;
  settle(*session);
  return session;
}

std::shared_ptr<Session> Sessions::remember(const sandbox::Found& found) {
  if (auto session = find(found.id)) return session;
  const Known nothing;
  const Left left{providers_.default_name(), found};
  std::shared_ptr<Session> session = recall(left, nothing);
  if (!session) return nullptr;
  if (find_thread(session->spec.thread, session->spec.tenant)) session->spec.thread.clear();
  insert(session);
  return session;
}

// Its row is gone and its thread is written down as another's: it was being removed when its server
// died, and the thread had come again.
bool Sessions::yields_thread(const Session& session, const Known& known) {
  if (session.spec.thread.empty() || known.contains(session.id)) return false;
  return std::any_of(known.begin(), known.end(), [&](const auto& row) {
    return thread_key(row.second.tenant, row.second.thread) == session.thread_key();
  });
}

awaitable<std::shared_ptr<sandbox::Sandbox>> Sessions::reach(const Left& left) {
  try {
    if (left.found.alive) co_return co_await providers_.find(left.provider)->adopt(left.found);
  } catch (const std::exception& error) {
    // A session whose sandbox is lost still has its files.
    events_.session_adoption_failed({.session = left.found.id}, error.what());
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

awaitable<void> Sessions::adopt(Left left, const Known& known) {
  const sandbox::Found& found = left.found;
  const std::shared_ptr<Session> session = recall(left, known);
  if (!session) {
    // A ready one is as good as new if it is what this server would make.
    const bool ready = found.alive && pool_.would_make(found.label);
    std::shared_ptr<sandbox::Sandbox> box;
    if (ready) box = co_await reach(left);
    if (box) {
      pool_.add_ready(std::move(box));
      co_return;
    }
    log(LogLevel::info, "sandbox_orphan_removed", {{"sandbox", found.id.substr(0, 12)}});
    co_await destroy(left.provider, found.id);
    co_return;
  }
  session->sandbox = co_await reach(left);
  if (session->sandbox) {
    pool_.count_used();
    for (const auto& process : session->sandbox->processes()) {
      if (process->exit()) {  // counted by who saw it end
        events_.command_found(*process, session->who());
        continue;
      }
      events_.command_started(*process, session->who(), process->info().command);
    }
  }
  if (!session->sandbox && sleep_ > Milliseconds{0} && left.provider == kNative) {
    session->keeps_place = true;  // it was put away, for all that is known
    pool_.count_used();
  }
  if (session->sandbox && !from_label(found.label)) {
    // Its server died between the two.
    providers_.find(left.provider)
        ->assign(*session->sandbox, to_label(to_stored(*session)), session->spec.idle);
  }
  if (find_thread(session->spec.thread, session->spec.tenant) || yields_thread(*session, known)) {
    session->spec.thread.clear();
  }
  insert(session);
  events_.session_found(session->who(), session->created);
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
awaitable<void> Sessions::drop_without_files(Known& known, const std::vector<Left>& found,
                                             const std::vector<std::string>& answered) {
  for (auto next = known.begin(); next != known.end();) {
    const auto row = next++;
    const auto same = [&](const Left& left) { return left.found.id == row->first; };
    if (std::any_of(found.begin(), found.end(), same)) continue;
    const std::string provider = row->second.provider.empty() ? kNative : row->second.provider;
    if (std::find(answered.begin(), answered.end(), provider) == answered.end()) continue;
    const auto [id, stored] = std::pair{row->first, std::move(row->second)};
    known.erase(row);
    co_await drop_row(id);
    if (directory_) directory_->release(thread_key(stored.tenant, stored.thread), id);
    const Who who{stored.user, stored.thread, id, {}, stored.tenant};
    const auto age = std::chrono::system_clock::now() - stored.created;
    events_.session_expired(who, std::chrono::duration_cast<Milliseconds>(age));
    log(LogLevel::info, "session_orphan_removed", {{"session", id.substr(0, 12)}});
  }
}

}  // namespace tb::session
