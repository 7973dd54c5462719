// SPDX-License-Identifier: Apache-2.0
// The workers as a coordinator knows them: who they are, how loaded, who has which session. What it
// says decides nothing: a worker that is sent what is not its own says so.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/async.h"
#include "base/units.h"
#include "cluster/record.h"
#include "http/client.h"
#include "http/relay.h"
#include "net/resolver.h"
#include "redis/client.h"

namespace tb::cluster {

struct Worker {
  std::string id;
  std::string url;
  bool healthy = false;
  Record record;            // of a worker in Redis; else only load and version
  std::string text;         // its record as it stands there
  std::uint64_t seen = 0;   // when that last changed: CLOCK_BOOTTIME
  std::uint64_t begun = 0;  // sessions that we sent there since
  std::uint64_t avoided_until = 0;
  std::optional<http::Endpoint> endpoint;
  std::set<http::Relay::Passage*> under_way;  // aborted when it is gone
  bool gone = false;
};

// What is known of where something is.
struct Place {
  std::shared_ptr<Worker> worker;  // null: nowhere
  bool certain = true;             // false: nobody could be asked who would know
  bool refused = false;            // it is there to say that the caller may not come in
};

class Fleet {
 public:
  struct Settings {
    std::optional<redis::Settings> redis;
    std::vector<std::string> urls;  // beside those in Redis, or without it
    Milliseconds lease = 10s;
  };
  Fleet(asio::any_io_executor executor, Settings settings);

  // Returns when it has been tried to learn of the workers.
  awaitable<void> open();
  awaitable<void> close();

  bool has_directory() const { return redis_ != nullptr; }
  bool directory_connected() const { return redis_ && redis_->connected(); }
  std::vector<std::shared_ptr<Worker>> all() const;
  std::shared_ptr<Worker> find(const std::string& id) const;

  // `caller`: the headers by which workers know whoever asks, for when they have to be asked.
  using Caller = std::vector<http::Header>;
  awaitable<Place> find_session(std::string session, Caller caller);
  awaitable<Place> find_thread(std::string thread, Caller caller);
  // For a new session: the least loaded of the healthy ones; null: there is none. Without a
  // directory, a thread has its worker for good.
  std::shared_ptr<Worker> choose(const std::string& thread);
  // For what any of them can answer.
  std::shared_ptr<Worker> any();

  // As find(), and looks whether it has joined lately.
  awaitable<std::shared_ptr<Worker>> find_or_read(std::string id);
  void remember(const std::string& session, const std::string& worker);
  void forget(const std::string& session);
  // What was known of this caller has led to the wrong worker.
  void forget_tenant(const Caller& caller);
  // It did not answer.
  void avoid(Worker& worker);
  // Where to connect. Throws Error{unavailable} when its name leads nowhere.
  awaitable<http::Endpoint> reach(std::shared_ptr<Worker> worker);
  awaitable<http::Response> get(std::shared_ptr<Worker> worker, std::string target,
                                Caller caller = {});

 private:
  awaitable<void> follow();
  awaitable<void> read_registry();
  awaitable<void> probe_all();
  awaitable<void> probe(std::shared_ptr<Worker> worker);
  awaitable<Place> read_entry(std::string key);
  awaitable<std::optional<std::string>> find_tenant(Caller caller);
  awaitable<Place> ask_all(std::string target, std::string sign, Caller caller);
  bool usable(const Worker& worker) const;

  asio::any_io_executor executor_;
  const Settings settings_;
  net::Resolver resolver_;
  std::unique_ptr<redis::Client> redis_;
  std::map<std::string, std::shared_ptr<Worker>> workers_;
  std::map<std::string, std::shared_ptr<Worker>> listed_;  // of the settings, by URL
  std::unordered_map<std::string, std::string> sessions_;  // to the worker's id
  std::unordered_map<std::string, std::string> tenants_;   // of callers, by their digests
  std::size_t turn_ = 0;
  Signal wake_;
  bool woken_ = false;
  TaskGroup tasks_;
};

}  // namespace tb::cluster
