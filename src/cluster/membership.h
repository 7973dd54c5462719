// SPDX-License-Identifier: Apache-2.0
// A worker's part in a cluster: it registers, keeps its lease, claims threads, takes the place of
// workers that are gone, and rebuilds the directory when that was lost. docs/cluster.md is the
// protocol, and says why a thread never has two sandboxes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/async.h"
#include "base/units.h"
#include "cluster/record.h"
#include "redis/client.h"
#include "session/directory.h"

namespace tb::cluster {

struct Load {
  std::uint64_t capacity = 0;
  std::uint64_t used = 0;
};

// A session that this worker has.
struct Owned {
  std::string thread;  // empty: anonymous
  std::string session;
  std::uint64_t claim = 0;
};

class Membership final : public session::Directory {
 public:
  struct Settings {
    std::string id;   // unique in the cluster
    std::string url;  // where coordinators and other workers reach us
    std::string version;
    std::string epoch_file;  // the name of our life, for the next server of these sandboxes
    Milliseconds lease = 10s;
    Milliseconds outage = 15min;  // that we live without Redis at most
    redis::Settings redis;
  };
  // What the worker is made of, as far as it matters here.
  struct Worker {
    std::function<Load()> load;
    // Times of CLOCK_BOOTTIME, for the keeper.
    std::function<void(std::uint64_t freeze_at, std::uint64_t end_at, bool first)> hold_sandboxes;
    std::function<std::vector<Owned>()> sessions;
    // The thread of this session is another worker's: ends it.
    std::function<awaitable<void>(std::string session)> give_up;
    // Whether this worker, which we know, can reach Redis. Throws when it does not say.
    std::function<awaitable<bool>(std::string url)> ask_peer;
  };
  Membership(asio::any_io_executor executor, Settings settings);

  // Begins; `worker` and what it refers to outlive close().
  void open(Worker worker);
  awaitable<void> close();

  void check_lease() const override;
  void check_open() const override;
  awaitable<std::uint64_t> claim(std::string thread, std::string session) override;
  awaitable<void> check_nobody_has(std::string thread) override;
  void release(std::string thread, std::string session) override;
  bool connected() const override { return redis_.connected() && registered_; }
  bool confirm_connected() override;

  const std::string& id() const { return settings_.id; }
  const std::string& url() const { return settings_.url; }
  const std::string& epoch() const { return epoch_; }

  // ---- for who watches ----
  // How long we may go on if no renewal succeeds from now on.
  Milliseconds lease_left() const;
  std::size_t others() const { return peers_.size(); }
  std::uint64_t commands_sent() const { return redis_.commands_sent(); }

  // ---- sessions that move: entries.cpp ----
  // No more claims while it is so, and others are told that we take nothing.
  void set_draining(bool draining);
  bool draining() const { return draining_; }
  struct Peer {
    std::string id;
    std::string url;
  };
  // The least loaded one of those that take sessions; empty: there is none.
  std::optional<Peer> least_loaded() const;
  // Whether another worker is there.
  bool knows(const std::string& url) const;
  // Whom the directory says it is; empty: nobody. Throws Error{unavailable}.
  awaitable<std::string> find_owner(std::string thread, std::string session);
  // Makes ours what is theirs; returns the number of the claim. Throws Error{conflict} when it is
  // not theirs, and Error{unavailable} when nobody knows.
  awaitable<std::uint64_t> take_over(std::string thread, std::string session, std::string worker,
                                     std::string epoch);

 private:
  using Boot = std::uint64_t;  // milliseconds of CLOCK_BOOTTIME

  awaitable<void> live();
  awaitable<void> tell_releases();
  awaitable<void> beat();
  awaitable<bool> enlist();
  awaitable<void> renew();
  void extend(Boot from);
  void begin_life();
  void load_epoch();
  void save_epoch() const;
  std::string about_us() const;
  Milliseconds part(unsigned percent) const { return settings_.lease * percent / 100; }

  // ---- others: others.cpp ----
  awaitable<void> watch(std::map<std::string, std::string> records);
  awaitable<void> reap(std::string id, std::string record);
  Milliseconds patience_with(const Record& record) const;
  awaitable<void> ask_peers();
  awaitable<bool> peer_is_cut_off(std::string url);

  // ---- the directory: entries.cpp ----
  awaitable<void> mind_run(std::string state);
  awaitable<void> restore_all();
  awaitable<void> restore_some(std::span<const Owned> some);

  asio::any_io_executor executor_;
  const Settings settings_;
  Worker worker_;
  redis::Client redis_;
  Signal wake_;
  bool woken_ = false;
  Signal to_release_;
  TaskGroup tasks_;

  std::string epoch_;
  bool registered_ = false;  // as far as we know
  bool restored_ = false;    // all that we have is in the directory, under this epoch
  std::uint64_t joined_ = 0;
  std::uint64_t view_ = 0;
  Boot renewed_ = 0;         // when the last renewal that Redis took was sent; 0: never
  Boot served_until_ = 0;    // nothing is begun from then on
  bool resuming_ = false;    // the epoch is that of an earlier server
  std::string open_run_;     // the run of Redis for which claims are taken
  std::string restored_as_;  // the run and the epoch for which all was restored
  std::string rebuilding_run_;
  Boot rebuilding_since_ = 0;

  struct Watched {
    std::string record;
    Boot since = 0;
  };
  std::map<std::string, Watched> watched_;
  std::map<std::string, Record> peers_;  // as of the last renewal; their URLs may be empty
  bool draining_ = false;
  std::vector<Owned> released_;  // Redis has not heard of it yet
  bool told_alone_ = false;
};

}  // namespace tb::cluster
