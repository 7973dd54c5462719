// SPDX-License-Identifier: Apache-2.0
// What this worker has, as the directory knows it: claimed, released, and restored when the
// directory or our life in it was lost.
#include <algorithm>

#include "base/boottime.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/membership.h"
#include "cluster/scripts.h"

namespace tb::cluster {
namespace {

constexpr unsigned kSilence = 110;  // percent of the lease
constexpr std::size_t kBatch = 500;
// Garbage only: of a worker that never came back. Refreshed by each restoring.
constexpr const char* kTimeToLive = "604800000";

redis::Command hint(const std::string& session, const std::string& worker) {
  return {"SET", session_key(session), worker, "PX", kTimeToLive};
}

redis::Command to_release(const Owned& one, const std::string& worker) {
  const std::string session = session_key(one.session);
  if (one.thread.empty()) return redis::Client::by_hash(scripts::drop_hint(), {session}, {worker});
  return redis::Client::by_hash(scripts::release(), {thread_key(one.thread), session},
                                {worker, one.session});
}

redis::Command to_restore(const Owned& one, const std::string& worker, const std::string& epoch,
                          bool owner) {
  const std::string session = session_key(one.session);
  if (one.thread.empty()) {
    return redis::Client::by_hash(scripts::restore_hint(), {session, kWorkers},
                                  {worker, kTimeToLive});
  }
  return redis::Client::by_hash(scripts::restore(), {thread_key(one.thread), kWorkers, session},
                                {worker, epoch, std::to_string(one.claim), one.session, kTimeToLive,
                                 owner ? "owner" : "heir"});
}

}  // namespace

awaitable<std::uint64_t> Membership::claim(std::string thread, std::string session) {
  check_open();
  if (thread.empty()) {
    redis::Command known = hint(session, settings_.id);
    co_await redis_.call(std::move(known));
    check_lease();
    co_return 0;
  }
  std::vector<std::string> keys{thread_key(thread), kWorkers, kRun, kNext, session_key(session)};
  std::vector<std::string> arguments{settings_.id, epoch_, redis_.run_id(), session, kTimeToLive};
  const redis::Reply reply =
      co_await redis_.run(scripts::claim(), std::move(keys), std::move(arguments));
  if (reply.at(0) == "claimed") {
    check_lease();  // we may have been stopped meanwhile
    co_return std::stoull("0" + reply.at(1));
  }
  if (reply.at(0) == "other") {
    const Record owner = parse_record(reply.at(2)).value_or(Record{});
    throw session::Elsewhere{reply.at(1), owner.url, reply.at(3)};
  }
  woken_ = true;
  wake_.notify_all();
  throw Error{Code::unavailable, "no new sessions yet: this worker is about to register again"};
}

awaitable<void> Membership::check_nobody_has(std::string thread) {
  redis::Command find_entry{"GET", thread_key(thread)};
  const redis::Reply reply = co_await redis_.call(std::move(find_entry));
  const std::optional<Entry> entry = parse_entry(reply.text);
  if (!entry || entry->worker == settings_.id) co_return;
  redis::Command find_owner{"HGET", kWorkers, entry->worker};
  const redis::Reply record = co_await redis_.call(std::move(find_owner));
  const std::optional<Record> owner = parse_record(record.text);
  if (!owner || owner->epoch != entry->epoch) co_return;
  throw session::Elsewhere{entry->worker, owner->url, entry->session};
}

void Membership::release(std::string thread, std::string session) {
  released_.push_back({std::move(thread), std::move(session), 0});
  to_release_.notify_all();
}

awaitable<void> Membership::tell_releases() {
  for (;;) {
    while (released_.empty() || !redis_.connected()) co_await to_release_.wait();
    const std::vector<Owned> now = std::exchange(released_, {});
    bool told = true;
    std::vector<redis::Command> commands;
    for (const Owned& one : now) commands.push_back(to_release(one, settings_.id));
    redis::Command load{"SCRIPT", "LOAD", scripts::release().text()};
    redis::Command load_too{"SCRIPT", "LOAD", scripts::drop_hint().text()};
    try {
      const std::vector<redis::Reply> replies = co_await redis_.call_all(std::move(commands));
      for (const redis::Reply& reply : replies) told = told && !reply.is_error();
      if (!told) {  // it may not know the scripts yet
        co_await redis_.call(std::move(load));
        co_await redis_.call(std::move(load_too));
      }
    } catch (const Error&) {
      told = false;
    }
    if (!told) released_.insert(released_.end(), now.begin(), now.end());
  }
}

// Whether this Redis has all that the workers know. One that was restarted may lack the last
// writes, or all of them.
awaitable<void> Membership::mind_run(std::string state) {
  const std::string run = redis_.run_id();
  if (state != run + " open") {
    open_run_.clear();
    std::vector<std::string> keys{kRun};
    std::vector<std::string> arguments{run};
    co_await redis_.run(scripts::begin(), std::move(keys), std::move(arguments));
    if (rebuilding_run_ != run) {
      rebuilding_run_ = run;
      rebuilding_since_ = boottime_ms();
      log(LogLevel::warning, "directory_rebuilding", {{"run", run}});
    }
  }
  // Who had its lease all the time restores at once; who had not, when those have done so: what it
  // had may be another's.
  const bool open = state == run + " open";
  const std::string as = run + " " + epoch_;
  if (restored_as_ != as && (restored_ || open)) {
    co_await restore_all();
    restored_as_ = as;
    restored_ = true;
  }
  if (open) {
    open_run_ = run;
    rebuilding_run_.clear();
    co_return;
  }
  if (rebuilding_run_ != run) co_return;  // somebody was told that we can't reach it
  if (boottime_ms() - rebuilding_since_ < static_cast<Boot>(part(kSilence).count())) co_return;
  std::vector<std::string> keys{kRun};
  std::vector<std::string> arguments{run};
  const redis::Reply reply =
      co_await redis_.run(scripts::open(), std::move(keys), std::move(arguments));
  if (reply.at(0) != "open") co_return;
  log(LogLevel::info, "directory_open", {{"run", run}});
  woken_ = true;  // the next renewal sees it
}

awaitable<void> Membership::restore_all() {
  const std::vector<Owned> all = worker_.sessions();
  if (all.empty()) co_return;
  redis::Command load{"SCRIPT", "LOAD", scripts::restore().text()};
  co_await redis_.call(std::move(load));
  redis::Command load_too{"SCRIPT", "LOAD", scripts::restore_hint().text()};
  co_await redis_.call(std::move(load_too));
  for (std::size_t at = 0; at < all.size(); at += kBatch) {
    const std::span<const Owned> some{all.data() + at, std::min(kBatch, all.size() - at)};
    co_await restore_some(some);
  }
  log(LogLevel::info, "sessions_restored", {{"count", std::to_string(all.size()), true}});
}

awaitable<void> Membership::restore_some(std::span<const Owned> some) {
  std::vector<redis::Command> commands;
  for (const Owned& one : some) {
    commands.push_back(to_restore(one, settings_.id, epoch_, restored_));
  }
  const std::vector<redis::Reply> replies = co_await redis_.call_all(std::move(commands));
  for (std::size_t i = 0; i < some.size(); ++i) {
    const redis::Reply& reply = replies[i];
    if (reply.is_error()) throw Error{Code::unavailable, "Redis says " + reply.text};
    if (reply.at(0) == "restored") continue;
    if (reply.at(0) != "other") throw Error{Code::unavailable, "the lease is lost again"};
    log(LogLevel::warning, "session_moved",
        {{"session", some[i].session.substr(0, 12)}, {"worker", reply.at(1)}});
    co_await worker_.give_up(some[i].session);
  }
}

void Membership::set_draining(bool draining) {
  draining_ = draining;
  woken_ = true;
  wake_.notify_all();
}

std::optional<Membership::Peer> Membership::least_loaded() const {
  const auto load = [](const Record& one) {
    return static_cast<double>(one.used) / static_cast<double>(one.capacity);
  };
  const Record* best = nullptr;
  std::string id;
  for (const auto& [name, record] : peers_) {
    if (record.capacity <= record.used || (best && load(*best) <= load(record))) continue;
    best = &record;
    id = name;
  }
  if (!best) return std::nullopt;
  return Peer{id, best->url};
}

bool Membership::knows(const std::string& url) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const auto& one) { return one.second.url == url; });
}

awaitable<std::string> Membership::find_owner(std::string thread, std::string session) {
  redis::Command command{"GET", thread.empty() ? session_key(session) : thread_key(thread)};
  const redis::Reply reply = co_await redis_.call(std::move(command));
  if (thread.empty()) co_return reply.text;
  const std::optional<Entry> entry = parse_entry(reply.text);
  co_return entry && entry->session == session ? entry->worker : std::string{};
}

awaitable<std::uint64_t> Membership::take_over(std::string thread, std::string session,
                                               std::string worker, std::string epoch) {
  check_open();
  std::vector<std::string> keys{thread_key(thread), session_key(session), kWorkers, kNext};
  std::vector<std::string> arguments{settings_.id,
                                     epoch_,
                                     worker,
                                     epoch,
                                     session,
                                     kTimeToLive,
                                     thread.empty() ? "anonymous" : "thread"};
  const redis::Reply reply =
      co_await redis_.run(scripts::hand_over(), std::move(keys), std::move(arguments));
  if (reply.at(0) != "moved") {
    throw Error{Code::conflict, "session " + session + " is not worker " + worker + "'s"};
  }
  check_lease();
  co_return std::stoull("0" + reply.at(1));
}

}  // namespace tb::cluster
