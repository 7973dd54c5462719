// SPDX-License-Identifier: Apache-2.0
// Other workers: which of them are gone, and whether they can reach Redis when we can't.
#include "base/boottime.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/membership.h"
#include "cluster/scripts.h"

namespace tb::cluster {
namespace {

constexpr unsigned kSilence = 110;  // percent of the lease

}  // namespace

// One that does not know us does not ask us when it can't reach Redis.
Milliseconds Membership::patience_with(const Record& record) const {
  const Milliseconds known = part(kSilence);
  const bool knows_us = joined_ != 0 && joined_ <= record.view;
  if (knows_us || record.url == settings_.url) return known;
  return std::max(known, settings_.outage * kSilence / 100);
}

// A worker that renews its lease changes its record: silence is to see the same one again and
// again. We go by our own clock, from when we first saw it.
awaitable<void> Membership::watch(std::map<std::string, std::string> records) {
  const Boot now = boottime_ms();
  std::erase_if(watched_, [&](const auto& one) { return !records.contains(one.first); });
  std::vector<std::pair<std::string, std::string>> silent;
  for (const auto& [id, text] : records) {
    Watched& watched = watched_[id];
    if (watched.record != text) {
      watched = {text, now};
      continue;
    }
    const Record record = parse_record(text).value_or(Record{});
    const auto patience = static_cast<Boot>(patience_with(record).count());
    if (now - watched.since >= patience) silent.emplace_back(id, text);
  }
  for (const auto& [id, text] : silent) co_await reap(id, text);
}

awaitable<void> Membership::reap(std::string id, std::string record) {
  std::vector<std::string> keys{kWorkers};
  std::vector<std::string> arguments{id, record};
  const redis::Reply reply =
      co_await redis_.run(scripts::reap(), std::move(keys), std::move(arguments));
  watched_.erase(id);
  woken_ = woken_ || id == settings_.id;
  if (reply.at(0) == "reaped") log(LogLevel::warning, "worker_reaped", {{"worker", id}});
}

awaitable<bool> Membership::peer_is_cut_off(std::string url) {
  try {
    co_return !co_await worker_.ask_peer(url);
  } catch (const Error& error) {
    log(LogLevel::debug, "peer_silent", {{"url", url}, {"error", error.what()}});
    co_return false;
  }
}

// Who says that it can't reach Redis either begins to watch us anew, if it can again: until then
// and for the time of a lease nobody takes our threads.
awaitable<void> Membership::ask_peers() {
  const Boot asked = boottime_ms();
  const auto outage = static_cast<Boot>(settings_.outage.count());
  if (renewed_ == 0 || !restored_ || asked >= served_until_) co_return;
  if (asked + static_cast<Boot>(settings_.lease.count()) >= renewed_ + outage) co_return;
  const std::map<std::string, Record> peers = peers_;
  for (const auto& [id, record] : peers) {
    const bool cut_off = co_await peer_is_cut_off(record.url);
    if (!cut_off || redis_.connected()) co_return;
  }
  if (!std::exchange(told_alone_, true)) {
    log(LogLevel::warning, "redis_lost_by_all",
        {{"workers", std::to_string(peers.size() + 1), true}});
  }
  extend(asked);
}

}  // namespace tb::cluster
