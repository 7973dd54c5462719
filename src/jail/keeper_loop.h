// SPDX-License-Identifier: Apache-2.0
// The keeper at work: one loop over its clients, its sandboxes and the time.
#pragma once

#include <sys/epoll.h>

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jail/clients.h"
#include "jail/jail.h"
#include "jail/keeper.h"
#include "jail/records.h"

namespace tb::jail {

using Clock = std::chrono::steady_clock;

// A sandbox that runs.
struct Live {
  std::unique_ptr<Jail> jail;
  std::string label;
  std::uint64_t ttl_ms = 0;
  Clock::time_point deadline = Clock::time_point::max();
  Clock::time_point renewed = Clock::now();
  // CPU time shortly before the deadline: a sandbox that works until then is not idle.
  struct Mark {
    Clock::time_point at;
    std::uint64_t cpu_us = 0;
  };
  std::optional<Mark> mark;
  bool dying = false;
  bool keep_files = false;
  std::vector<Waiter> waiters;  // who want to know when it is gone
  std::uint64_t holder = 0;     // the connection that its socket was passed to; 0: none
  std::deque<Waiter> joining;   // who want it next
};

// One of which only the files are there.
struct Dormant {
  Record record;  // its uids stay claimed: its files belong to them
  Clock::time_point deadline = Clock::time_point::max();
  bool claimed = true;  // they are, by us; else they may be those of one that lives
};

Clock::time_point deadline_after(std::uint64_t ttl_ms);

class Keeper {
 public:
  Keeper(const KeeperOptions& options, Workshop workshop);
  int run();

 private:
  // ---- starting ----
  void load_records();
  void describe_cleaning(unsigned strays);
  void watch_signals();
  void listen();
  void watch(int fd, unsigned events);

  // ---- the loop ----
  void handle(const epoll_event& event);
  void on_time();
  void expire(Clock::time_point now);
  bool still_busy(Live& live, Clock::time_point now) const;
  void on_signals();
  void on_connect();
  void on_client(int fd);

  // ---- requests: keeper_requests.cpp ----
  void obey(int client, std::string_view message);
  void hello(int client, std::uint32_t number);
  void create(int client, std::uint32_t number, Reader& in);
  void attach(int client, std::uint32_t number, Reader& in);
  void join(int client, std::uint32_t number, Reader& in);
  void release(int client, Reader& in);
  void label(int client, std::uint32_t number, Reader& in);
  void destroy(int client, std::uint32_t number, Reader& in);
  void rest(int client, std::uint32_t number, Reader& in);
  void list(int client, std::uint32_t number);
  void tell_load(int client, std::uint32_t number, Reader& in);
  void take_lease(int client, std::uint32_t number, Reader& in);
  Live& get(const std::string& id);

  // ---- volumes: keeper_volumes.cpp ----
  void make_volume(int client, std::uint32_t number, Reader& in);
  void remove_volume(int client, std::uint32_t number, Reader& in);
  void list_volumes(int client, std::uint32_t number, Reader& in);
  std::vector<std::string> users_of(const std::string& volume) const;
  // ---- the lease of all sandboxes: keeper_lease.cpp ----
  void mind_lease();
  void freeze_all();
  bool lease_over() const;
  std::chrono::milliseconds until_lease() const;

  // ---- the life of a sandbox ----
  void pass_socket(Live& live, const Waiter& to);
  void pass_on(Live& live);
  void left(std::uint64_t connection);
  void save(const std::string& id, const Live& live);
  void end(Live& live, bool keep_files);
  void on_death(pid_t pid);
  void forget_files(const std::string& id);
  void forget_dormant(const std::string& id);
  void retry_removals();
  void stop();

  const KeeperOptions& options_;
  Workshop workshop_;
  Records records_;
  std::vector<Barrier> barriers_;
  std::string cleaned_;
  os::Fd epoll_{check(::epoll_create1(EPOLL_CLOEXEC), "epoll_create")};
  os::Fd signals_;
  os::Fd listener_;
  Clients clients_{epoll_};
  std::map<int, std::string> guests_;
  std::map<pid_t, std::string> pids_;
  std::map<std::string, Live> live_;
  std::map<std::string, Dormant> dormant_;
  std::vector<SandboxCgroup> removals_;
  std::vector<Waiter> stop_waiters_;
  Clock::time_point alone_since_;
  Clock::time_point next_tick_;
  Lease lease_;
  bool frozen_ = false;
  bool stopping_ = false;
};

}  // namespace tb::jail
