// SPDX-License-Identifier: Apache-2.0
// A thread owns a box: whose sandbox it is, and for how long.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/async.h"
#include "sandbox/sandbox.h"
#include "session/pool.h"

namespace tb::session {

using WallTime = std::chrono::system_clock::time_point;

struct SessionSpec {
  std::string thread;  // empty: anonymous, nobody can find it but by its id
  std::string user;    // for logs only
  Milliseconds idle = 30min;
};

struct Session {
  std::string id;  // its sandbox's too
  SessionSpec spec;
  WallTime created;
  WallTime last_activity;
  std::shared_ptr<sandbox::Sandbox> sandbox;  // null: only the files are there, as after a crash

  WallTime expires() const { return last_activity + spec.idle; }
};

class Sessions {
 public:
  Sessions(asio::any_io_executor executor, sandbox::Provider& provider, PoolSettings pool);

  // Finds what an earlier server had, and fills the pool.
  awaitable<void> open();
  // Stops working in the background; sandboxes and what runs in them go on.
  awaitable<void> close();

  struct Result {
    std::shared_ptr<Session> session;
    bool existed = false;  // before this request; a creation that was joined is not
  };
  awaitable<Result> get_or_create(SessionSpec spec);

  std::shared_ptr<Session> find(const std::string& id) const;
  // Throws Error{not_found}.
  std::shared_ptr<Session> get(const std::string& id) const;
  std::shared_ptr<Session> find_thread(const std::string& thread) const;

  // Starts a command; brings the sandbox back first if only its files are there.
  awaitable<std::shared_ptr<sandbox::Process>> start(std::shared_ptr<Session> session,
                                                     sandbox::Command command);
  // Starts it and waits for its end.
  awaitable<std::shared_ptr<sandbox::Process>> execute(std::shared_ptr<Session> session,
                                                       sandbox::Command command);
  // Ends it with all its processes and files; unknown is fine. False: there was none.
  awaitable<bool> remove(std::string id);

  std::size_t count() const { return sessions_.size(); }
  const Pool& pool() const { return pool_; }

 private:
  struct Creation {
    explicit Creation(asio::any_io_executor executor) : done(executor) {}
    bool over = false;
    std::shared_ptr<Session> session;
    std::exception_ptr failure;
    Signal done;
  };
  awaitable<std::shared_ptr<Session>> create(SessionSpec spec);
  awaitable<Result> join(std::shared_ptr<Creation> creation);
  awaitable<void> adopt(sandbox::Found found);
  awaitable<void> awake(std::shared_ptr<Session> session);
  awaitable<void> revive(Session& session);
  void insert(std::shared_ptr<Session> session);
  void erase(const std::shared_ptr<Session>& session);
  void touch(Session& session, Milliseconds more = Milliseconds{0});
  void on_gone(const std::string& id, bool files_kept);

  asio::any_io_executor executor_;
  sandbox::Provider& provider_;
  Pool pool_;
  std::unordered_map<std::string, std::shared_ptr<Session>> sessions_;
  std::unordered_map<std::string, std::shared_ptr<Session>> threads_;
  std::unordered_map<std::string, std::shared_ptr<Creation>> creating_;  // by thread
  std::unordered_map<std::string, std::shared_ptr<Creation>> waking_;    // by session
  Signal gone_;                                                          // a sandbox of ours is
};

}  // namespace tb::session
