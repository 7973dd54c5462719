// SPDX-License-Identifier: Apache-2.0
// The store on disk: one SQLite file and a thread of its own that writes it, so that the loop never
// waits for the disk. Everything that waits goes into one transaction.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <unordered_map>

#include "hooks/outbox.h"
#include "session/store.h"
#include "store/tables.h"

namespace tb::store {

struct Settings {
  std::size_t max_events = 100'000;  // older ones are forgotten
  std::size_t queue = 10'000;        // so many writes and so many events wait at most
  Milliseconds linger = 50ms;        // touches and events wait so long for company
  Milliseconds busy = 5s;            // another program may have the file for so long
  Milliseconds retry = 1s;           // after a failed write of touches and events
};

class SqliteStore : public session::Store, public hooks::Outbox {
 public:
  // Opens `path`, whose directory must be writable for the uid that the process has from now on:
  // SQLite makes and removes a log beside the file. Waits for the disk. Throws Error{invalid} when
  // a newer program wrote it, {conflict} when another has it open, {unavailable} otherwise.
  SqliteStore(asio::any_io_executor executor, std::string path, Settings settings = {});
  ~SqliteStore() override;  // writes what waits, like close()

  std::vector<StoredSession> sessions() override;
  awaitable<void> put(StoredSession session) override;
  void touch(std::string id, WallTime last_activity) override;
  awaitable<void> remove(std::string id) override;
  void record(Event event) override;
  awaitable<std::vector<Event>> events(std::string session, std::size_t limit) override;
  awaitable<void> close() override;
  std::string problem() const override;

  // ---- what is to be delivered: outbox.cpp ----
  using hooks::Outbox::deliveries;
  awaitable<std::optional<hooks::State>> put_delivery(hooks::Delivery delivery) override;
  awaitable<std::vector<std::optional<hooks::State>>> put_deliveries(
      std::vector<hooks::Delivery> deliveries) override;
  awaitable<void> save_delivery(hooks::Delivery delivery) override;
  awaitable<std::optional<hooks::Delivery>> find_delivery(std::string id) override;
  awaitable<std::vector<hooks::Delivery>> deliveries(hooks::State state, std::size_t limit,
                                                     hooks::Filter filter) override;
  awaitable<bool> remove_delivery(std::string id) override;
  awaitable<void> trim_deliveries(hooks::State state, hooks::Kept kept,
                                  hooks::WallTime now) override;
  awaitable<std::vector<hooks::Webhook>> webhooks() override;
  awaitable<void> put_webhook(hooks::Webhook webhook) override;
  awaitable<void> remove_webhook(std::string id) override;

  // Which damaged file was set aside, here or while running (also told by the log as
  // store_recovered); empty: none. The store then knows no earlier session.
  std::string recovered() const;

 private:
  using Work = std::function<void(Tables&)>;
  using Done = std::function<void(std::exception_ptr)>;
  struct Job {
    bool reads = false;  // needs no transaction, and sees all that was asked for before
    Work work;
    std::string removes;  // the session that goes with it, if one does
    Done done;
    std::exception_ptr failure;
  };
  struct Batch {
    std::set<std::string> removals;  // that failed before: first, for threads that come again
    std::deque<Job> jobs;
    std::unordered_map<std::string, WallTime> touches;
    std::deque<Event> events;
    bool last = false;
  };
  // On the loop's thread.
  void submit(Job job);
  awaitable<void> perform(bool reads, Work work, std::string removes = {});
  Done reply_to(std::function<void(std::exception_ptr)> on_loop) const;
  void wake_soon(std::unique_lock<std::mutex>& lock);

  // On the thread of its own.
  void work();
  Batch next_batch();
  void write(Batch& batch);
  void commit(Batch& batch);
  static bool writes(const Batch& batch);
  std::string attempt(const std::function<void()>& action);
  void recover(std::string damage);
  void keep(Batch& batch);
  void tell(std::string trouble);

  const asio::any_io_executor executor_;
  const std::string path_;
  const Settings settings_;
  std::unique_ptr<Tables> tables_;  // the thread's, once it runs; null: could not be opened again

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::deque<Job> jobs_;
  std::set<std::string> removals_;
  std::unordered_map<std::string, WallTime> touches_;
  std::deque<Event> events_;
  std::optional<std::chrono::steady_clock::time_point> soon_;  // touches or events are due then
  bool closing_ = false;
  bool closed_ = false;
  std::vector<Done> closers_;
  std::size_t dropped_ = 0;  // events, since the last good write
  std::string problem_;
  std::string recovered_;

  std::thread thread_;
};

}  // namespace tb::store
