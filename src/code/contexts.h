// SPDX-License-Identifier: Apache-2.0
// Contexts of sessions: each an interpreter that keeps its state from one call to the next. One
// call at a time in each; the others wait in order.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "code/channel.h"
#include "code/execution.h"
#include "code/stopper.h"
#include "session/sessions.h"
#include "shell/runs.h"

namespace tb::code {

struct ContextSpec {
  std::string id;  // empty: a new one is made up
  Language language = Language::python;
  std::string cwd = "/workspace";
  Variables env;
};

class Context {
 public:
  Context(asio::any_io_executor executor, ContextSpec what)
      : spec(std::move(what)), created(std::chrono::system_clock::now()), moved_(executor) {}

  const ContextSpec spec;
  const std::chrono::system_clock::time_point created;
  unsigned count = 0;  // calls
  bool running() const { return stopper != nullptr; }
  std::size_t waiting() const { return places_.empty() ? 0 : places_.size() - 1; }

  // ---- for Contexts ----
  std::shared_ptr<Channel> channel;       // null: none yet, or it has ended
  std::shared_ptr<sandbox::Shell> shell;  // of bash
  std::shared_ptr<Stopper> stopper;       // of the call that runs
  bool used = false;                      // a call has run: there is state that can be lost
  bool removed = false;
  std::uint32_t calls = 0;  // of this interpreter

  // While it lives, it is somebody's turn.
  class Turn {
   public:
    Turn(std::shared_ptr<Context> context, std::uint64_t place)
        : context_(std::move(context)), place_(place) {}
    Turn(Turn&&) noexcept = default;
    Turn& operator=(Turn&&) = delete;
    ~Turn();

   private:
    friend class Context;
    std::shared_ptr<Context> context_;
    std::uint64_t place_;
  };
  // Error{limited}: too many wait. Error{conflict}: it was removed meanwhile.
  static awaitable<Turn> turn(std::shared_ptr<Context> context);

 private:
  std::deque<std::uint64_t> places_;
  std::uint64_t next_ = 0;
  Signal moved_;
};

class Contexts {
 public:
  using SessionRef = std::shared_ptr<session::Session>;
  using ContextRef = std::shared_ptr<Context>;

  Contexts(asio::any_io_executor executor, session::Sessions& sessions, shell::Runs& runs,
           CellLimits limits = {});

  // Returns once its interpreter waits for code. Error{invalid} when the sandbox has none, or the
  // directory is not there; {limited}: the session has too many.
  awaitable<ContextRef> create(SessionRef session, ContextSpec spec, session::Who who);
  awaitable<std::vector<ContextRef>> list(SessionRef session);
  // Throws Error{not_found}.
  awaitable<ContextRef> get(SessionRef session, std::string id);
  // The one that code goes to that names none; its id is the language's name.
  awaitable<ContextRef> usual(SessionRef session, Language language);
  // When it is its turn. What the code does wrong is in the outcome.
  awaitable<Outcome> execute(SessionRef session, ContextRef context, Cell cell, Take take,
                             session::Who who, Nudge* wake = nullptr);
  // Error{conflict}: no call runs.
  void interrupt(Context& context);
  // With nothing of what it knew; a call that runs is ended.
  awaitable<void> restart(SessionRef session, ContextRef context, session::Who who);
  awaitable<void> remove(SessionRef session, ContextRef context);

  // An interpreter that waits in a sandbox for whoever gets that.
  static awaitable<void> warm(std::shared_ptr<sandbox::Sandbox> sandbox, std::string language);

 private:
  // What a session has.
  struct Place {
    explicit Place(asio::any_io_executor executor) : settled(executor) {}
    std::weak_ptr<session::Session> session;
    std::weak_ptr<sandbox::Sandbox> sandbox;  // that was looked through
    bool looking = false;
    unsigned starting = 0;  // interpreters that are nobody's yet, but not to be adopted
    Signal settled;
    std::vector<ContextRef> contexts;
    std::set<Language> lost;  // had an interpreter that could not be adopted
    std::map<Language, std::vector<std::shared_ptr<Channel>>> spares;
  };
  using PlaceRef = std::shared_ptr<Place>;
  class Starting;

  PlaceRef place_of(const SessionRef& session);
  awaitable<PlaceRef> look_through(SessionRef session);
  awaitable<void> adopt_all(PlaceRef place, std::shared_ptr<sandbox::Sandbox> sandbox);
  awaitable<void> adopt(PlaceRef place, std::shared_ptr<sandbox::Process> process,
                        Language language);
  static void adopt_shell(Place& place, asio::any_io_executor executor,
                          std::shared_ptr<sandbox::Shell> shell);

  awaitable<void> start(SessionRef session, ContextRef context, session::Who who);
  std::shared_ptr<Channel> take_spare(Place& place, const SessionRef& session,
                                      const Context& context, const session::Who& who);
  awaitable<std::shared_ptr<Channel>> start_interpreter(SessionRef session, const Context& context,
                                                        session::Who who);
  awaitable<std::string> set_up(const session::Session& session, const Context& context,
                                Channel& channel);
  awaitable<Outcome> run(SessionRef session, ContextRef context, Cell cell, Take take,
                         session::Who who, Nudge* wake);
  awaitable<Outcome> run_bash(SessionRef session, ContextRef context, Cell cell, Take take,
                              session::Who who, Nudge* wake);
  awaitable<shell::Run> begin_bash(SessionRef session, ContextRef context, sandbox::Command command,
                                   session::Who who);
  awaitable<void> run_quietly(SessionRef session, ContextRef context, std::string script,
                              session::Who who);

  asio::any_io_executor executor_;
  session::Sessions& sessions_;
  shell::Runs& runs_;
  const CellLimits limits_;
  std::map<std::string, PlaceRef> places_;
};

}  // namespace tb::code
