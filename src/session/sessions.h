// SPDX-License-Identifier: Apache-2.0
// A thread owns a box: whose sandbox it is, and for how long.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/async.h"
#include "registry/registry.h"
#include "session/directory.h"
#include "session/notifier.h"
#include "session/pool.h"
#include "session/session.h"
#include "session/workspaces.h"
#include "storage/session_logs.h"

namespace tb::session {

class Sessions;

// While it lives, its session is not idle, unless it only looks. Sessions outlives it.
class Use {
 public:
  Use(Sessions& sessions, std::shared_ptr<Session> session, bool renews);
  Use(Use&& other) noexcept = default;
  Use& operator=(Use&&) = delete;
  ~Use();
  sandbox::Sandbox& sandbox() const { return *sandbox_; }

 private:
  Sessions* sessions_;
  std::shared_ptr<Session> session_;  // null: moved from
  std::shared_ptr<sandbox::Sandbox> sandbox_;
  bool renews_;
};

class Sessions {
 public:
  struct Parts {
    const Providers& providers;
    Store& store;
    Events& events;
    const registry::Registry& registry;    // may be replaced by another, in place
    Notifier* notifier = nullptr;          // null: nobody is told of the ends of processes
    storage::Volumes* volumes = nullptr;   // null: there are none
    storage::SessionLogs* logs = nullptr;  // null: nothing stays of a session
    Directory* directory = nullptr;        // null: this server stands alone
    Workspaces* workspaces = nullptr;      // null: files go with their server
    limits::Limits* limits = nullptr;      // null: everybody may have as much as there is
  };
  struct Settings {
    PoolSettings pool;
    std::string default_policy = "strict";
    Milliseconds idle = 30min;
    Milliseconds sleep{0};  // unused for so long, a sandbox is put away; 0: never
    bool shared = false;    // other programs have sessions of the same provider, the only one
  };
  Sessions(asio::any_io_executor executor, Parts parts, Settings settings);

  // Finds what an earlier server had, and fills the pool.
  awaitable<void> open();
  // Stops working in the background; sandboxes and what runs in them go on.
  awaitable<void> close();

  struct Result {
    std::shared_ptr<Session> session;
    bool existed = false;  // before this request; a creation that was joined is not
  };
  // Throws Error{invalid} for a policy, environment, agent or provider that there is not, and
  // {unavailable} for a provider that can't be used; limits::Exceeded. Where all places are taken
  // it waits as `patience` says; then Error{exhausted}, or GaveUp.
  awaitable<Result> get_or_create(SessionSpec spec, std::shared_ptr<Patience> patience = nullptr);
  // The registry was replaced: what is kept ready follows it.
  void restock();

  std::shared_ptr<Session> find(const std::string& id) const;
  // Throws Error{not_found}, and Elsewhere for one that has moved.
  std::shared_ptr<Session> get(const std::string& id) const;
  // Of this tenant; each has threads of its own.
  std::shared_ptr<Session> find_thread(const std::string& thread,
                                       const std::string& tenant = {}) const;
  // The oldest first.
  std::vector<std::shared_ptr<Session>> all() const;

  // Its sandbox, brought back first if only its files are there, and kept from idling.
  awaitable<Use> use(std::shared_ptr<Session> session);
  // Its sandbox for who only looks: that is no activity, and keeps nothing from idling.
  awaitable<Use> look(std::shared_ptr<Session> session);

  // Throws PolicyError when `policy` refuses the command. `variables` are there too, but not of the
  // client's choice.
  using Variables = std::vector<std::pair<std::string, std::string>>;
  void check(const policy::Policy& policy, const sandbox::Command& command, const Who& who,
             const Variables& variables = {});
  const policy::Policy& default_policy() const { return policy_named(default_policy_); }
  const registry::Registry& registry() const { return registry_; }
  // Checks and starts a command.
  awaitable<std::shared_ptr<sandbox::Process>> start(std::shared_ptr<Session> session,
                                                     sandbox::Command command, Who who);
  // The same, but of starts with the same key in one session only the first one happens; the
  // others get its process, running or ended.
  awaitable<std::shared_ptr<sandbox::Process>> start_once(std::shared_ptr<Session> session,
                                                          sandbox::Command command, Who who);
  // Starts it and waits for its end.
  awaitable<std::shared_ptr<sandbox::Process>> execute(std::shared_ptr<Session> session,
                                                       sandbox::Command command, Who who);
  // A shell in its sandbox. Throws PolicyError for a variable that the policy does not let in.
  awaitable<std::shared_ptr<sandbox::Shell>> open_shell(std::shared_ptr<Session> session,
                                                        sandbox::ShellSpec spec, Who who);
  // A process has ended: for who waited for that by other means.
  void ended(const std::shared_ptr<Session>& session);
  // The state that its agent wrote, /sandbox/agent/state.json; empty: none, or its sandbox sleeps.
  awaitable<std::string> agent_state(std::shared_ptr<Session> session);
  // Ends it with all its processes and files; unknown is fine. False: there was none.
  awaitable<bool> remove(std::string id);
  // Its thread is another server's: ends what is here of it, and nothing else.
  awaitable<void> give_up(std::string id);

  // ---- to and from other servers: moving.cpp ----
  struct Destination {
    std::string worker;
    std::string url;
  };
  // Nothing is begun in it from now on: Error{unavailable}. False: something is at work in it.
  bool hold(const std::shared_ptr<Session>& session);
  void resume(const std::shared_ptr<Session>& session);
  // It is there now, whole: what is here of it goes.
  awaitable<void> leave(std::shared_ptr<Session> session, Destination to);
  // A sandbox for a session with this label, which nobody knows of yet: either it arrives, or is
  // turned away.
  awaitable<std::shared_ptr<Session>> expect(std::string id, std::string label);
  // `hand_over` makes the thread ours, and returns the number of the claim. What it throws ends the
  // new sandbox.
  awaitable<void> arrive(std::shared_ptr<Session> session,
                         std::function<awaitable<std::uint64_t>()> hand_over);
  awaitable<void> turn_away(std::shared_ptr<Session> session);
  // A request or a command is at work in it.
  static bool in_use(const Session& session);

  // ---- of a provider that several programs share ----
  // One that another program made; null: it is none, or is not known how to treat.
  std::shared_ptr<Session> remember(const sandbox::Found& found);
  // Another program wants its sandbox, and nothing of ours is at work on it.
  void release(const std::shared_ptr<Session>& session);

  std::size_t count() const { return sessions_.size(); }
  const Pool& pool() const { return pool_; }
  Events& events() { return events_; }
  const Store& store() const { return store_; }
  const Providers& providers() const { return providers_; }

 private:
  friend class Use;
  struct Creation {
    explicit Creation(asio::any_io_executor executor) : done(executor) {}
    bool over = false;
    bool abandoned = false;  // who wanted it has left: who joined begins anew
    std::shared_ptr<Session> session;
    std::exception_ptr failure;
    Signal done;
  };
  awaitable<std::shared_ptr<Session>> create(SessionSpec spec, std::shared_ptr<Patience> patience);
  awaitable<void> keep(std::shared_ptr<Session> session);
  awaitable<void> claim(std::shared_ptr<Session> session);
  awaitable<bool> end(std::string id, bool for_good);
  void let_go(const Session& session);
  awaitable<Result> join(std::shared_ptr<Creation> creation);
  static Result finish(const Creation& creation);
  std::shared_ptr<Creation> find_starting(const std::string& place) const;
  awaitable<void> awake(std::shared_ptr<Session> session);
  awaitable<void> reach_sandbox(std::shared_ptr<Session> session);
  awaitable<void> revive(std::shared_ptr<Session> session);
  awaitable<std::shared_ptr<sandbox::Sandbox>> bring_back(const Session& session);
  std::shared_ptr<sandbox::Sandbox> take_sandbox(Session& session);
  // ---- sandboxes that nobody uses: resting.cpp ----
  bool may_rest(const Session& session) const;
  awaitable<void> rest(std::shared_ptr<Session> session);
  awaitable<void> rest_unused();
  void go_on_idling(Session& session);

  void insert(std::shared_ptr<Session> session);
  void erase(const std::shared_ptr<Session>& session);
  void touch(Session& session, Milliseconds more = Milliseconds{0});
  void tell_touched();
  void tell_touched(const std::string& id);
  void lengthen(Session& session, Milliseconds more);
  void tell_keeper(Session& session);
  void renew(Session& session, Milliseconds more);
  void on_gone(const std::string& provider, const std::string& id, bool files_kept);
  awaitable<void> drop_row(std::string id);
  awaitable<void> keep_used_alive();
  awaitable<void> destroy(std::string provider, std::string id);
  const policy::Policy& policy_named(const std::string& name) const;

  // ---- what names of the registry mean: plan.cpp ----
  void complete(SessionSpec& spec) const;
  awaitable<void> mount(SessionSpec& spec);
  const registry::Environment* find_environment(const SessionSpec& spec) const;
  void settle(Session& session) const;
  Kind kind_of(const registry::Environment* environment, const std::string& name,
               const std::string& provider, const policy::Policy& policy) const;

  // ---- what is in /sandbox, and stays of it: keepsakes.cpp ----
  awaitable<void> furnish(std::shared_ptr<Session> session);
  awaitable<void> save_state(std::shared_ptr<Session> session);
  void note_end(const Session& session, const char* how);

  void record(const char* kind, const Session& session);
  void connect_gauges();

  // ---- what an earlier server left: recovery.cpp ----
  using Known = std::unordered_map<std::string, StoredSession>;
  struct Left {
    std::string provider;
    sandbox::Found found;
  };
  awaitable<std::vector<Left>> list_all(std::vector<std::string>& answered);
  awaitable<void> adopt(Left left, const Known& known);
  void remember_unreachable(const Known& known, const std::vector<std::string>& answered);
  std::shared_ptr<Session> recall(const Left& left, const Known& known) const;
  awaitable<void> expect_ends(std::shared_ptr<Session> session);
  awaitable<std::shared_ptr<sandbox::Sandbox>> reach(const Left& left);
  static bool yields_thread(const Session& session, const Known& known);
  awaitable<void> drop_without_files(Known& known, const std::vector<Left>& found,
                                     const std::vector<std::string>& answered);

  asio::any_io_executor executor_;
  const Providers& providers_;
  Store& store_;
  Events& events_;
  const registry::Registry& registry_;
  Notifier* const notifier_;
  storage::Volumes* const volumes_;
  storage::SessionLogs* const logs_;
  Directory* const directory_;
  Workspaces* const workspaces_;
  limits::Limits* const limits_;
  const std::string default_policy_;
  const Milliseconds idle_;
  const Milliseconds sleep_;
  const bool shared_;
  Pool pool_;
  std::unordered_map<std::string, std::shared_ptr<Session>> sessions_;
  std::unordered_map<std::string, std::shared_ptr<Session>> threads_;    // by thread_key
  std::unordered_map<std::string, std::shared_ptr<Creation>> creating_;  // the same
  std::unordered_map<std::string, std::shared_ptr<Creation>> waking_;    // by session
  std::unordered_map<std::string, std::shared_ptr<Creation>> starting_;  // by session and key
  std::unordered_map<std::string, Destination> moved_;                   // by session
  std::vector<std::string> touched_;                                     // and nobody was told yet
  asio::steady_timer touched_timer_;
  Signal gone_;  // a sandbox of ours is
  // Ends with us: what is posted may come later.
  std::shared_ptr<const bool> lives_ = std::make_shared<const bool>(true);
  TaskGroup tasks_;
};

}  // namespace tb::session
