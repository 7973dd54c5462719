// SPDX-License-Identifier: Apache-2.0
// Shells that keep their state between commands.
#include "base/error.h"
#include "embed/operations.h"

namespace tb::embed {
namespace {

ShellView view_of(const Core& core, const sandbox::Shell& shell) {
  ShellView view;
  view.id = shell.id();
  view.info = shell.info();
  view.state = shell.state();
  view.cwd = shell.cwd();
  view.generation = shell.generation();
  view.run = shell.run();
  view.waiting = core.runs.waiting(shell);
  return view;
}

std::shared_ptr<sandbox::Shell> shell_of(const session::Use& use, std::uint32_t number) {
  auto found = use.sandbox().find_shell(number);
  if (!found) throw NoProcess{"shell"};
  return found;
}

void check_wanted(const Stopper& stopper) {
  if (stopper.wanted) throw Error{Code::conflict, "the command is not wanted any more"};
}

// Waits for its turn, which can be cancelled. What was started is never left without its end: from
// then on `stopper` alone ends it.
awaitable<shell::Run> begin(CoreRef core, std::shared_ptr<session::Session> session,
                            std::shared_ptr<sandbox::Shell> shell, sandbox::Command command,
                            std::shared_ptr<Stopper> stopper) {
  co_await asio::this_coro::reset_cancellation_state(asio::enable_terminal_cancellation());
  check_wanted(*stopper);
  shell::Runs::Start start =
      [core, session,
       stopper](sandbox::Command what) -> awaitable<std::shared_ptr<sandbox::Process>> {
    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
    check_wanted(*stopper);
    const session::Who who = session->who();
    co_return co_await core->sessions.start(session, std::move(what), who);
  };
  shell::Run run = co_await core->runs.start(shell, std::move(command), std::move(start));
  stopper->process = run.process();
  stopper->check();
  co_return run;
}

// Before it waits for its turn: what is refused need not.
void check(Core& core, const session::Session& session, const sandbox::Command& command) {
  check_words(command);
  core.sessions.check(session.policy, command, session.who(), session.surroundings.variables);
}

}  // namespace

awaitable<ShellView> open_shell(CoreRef core, std::string id, sandbox::ShellSpec spec,
                                std::shared_ptr<Stopper> stopper) {
  co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  sandbox::Command like;
  like.tag = spec.tag;
  check_words(like);
  const auto session = co_await core->reach(std::move(id));
  const session::Busy busy{*session};
  const session::Who who = session->who();
  const auto shell = co_await core->sessions.open_shell(session, std::move(spec), who);
  if (stopper->wanted) co_await shell->close();  // nobody would know of it
  co_return view_of(*core, *shell);
}

awaitable<std::vector<ShellView>> shells(CoreRef core, std::string id) {
  const auto session = co_await core->reach(std::move(id));
  const session::Use use = co_await core->sessions.look(session);
  std::vector<ShellView> views;
  for (const auto& shell : use.sandbox().shells()) views.push_back(view_of(*core, *shell));
  co_return views;
}

awaitable<ShellView> shell(CoreRef core, std::string id, std::uint32_t number) {
  const auto session = co_await core->reach(std::move(id));
  const session::Use use = co_await core->sessions.look(session);
  co_return view_of(*core, *shell_of(use, number));
}

awaitable<ShellRan> run_in_shell(CoreRef core, std::string id, std::uint32_t number,
                                 sandbox::Command command, std::shared_ptr<Stopper> stopper) {
  const auto session = co_await core->reach(std::move(id));
  check(*core, *session, command);
  const session::Use use = co_await core->sessions.use(session);  // while it waits, too
  const auto shell = shell_of(use, number);
  const shell::Run run = co_await begin(core, session, shell, std::move(command), stopper);
  co_await run.process()->wait();
  stopper->process = nullptr;
  ShellRan ran;
  ran.executed = executed_of(*run.process());
  ran.facts = run.facts();
  co_return ran;
}

awaitable<ProcessView> start_in_shell(CoreRef core, std::string id, std::uint32_t number,
                                      sandbox::Command command, std::shared_ptr<Stopper> stopper) {
  const auto session = co_await core->reach(std::move(id));
  check(*core, *session, command);
  const session::Use use = co_await core->sessions.use(session);
  const auto shell = shell_of(use, number);
  shell::Run run = co_await begin(core, session, shell, std::move(command), stopper);
  stopper->process = nullptr;
  ProcessView view = embed::view_of(*run.process());
  core->keep(std::move(run));
  co_return view;
}

awaitable<void> interrupt_shell(CoreRef core, std::string id, std::uint32_t number) {
  const auto session = co_await core->reach(std::move(id));
  const session::Use use = co_await core->sessions.look(session);
  const auto shell = shell_of(use, number);
  const auto process = use.sandbox().find_process(shell->run());
  if (shell->state() != sandbox::Shell::State::running || !process || process->exit()) {
    throw Error{Code::conflict, "no command runs in the shell"};
  }
  process->signal(SIGINT, true);
}

awaitable<void> close_shell(CoreRef core, std::string id, std::uint32_t number) {
  const auto session = co_await core->reach(std::move(id));
  const session::Busy busy{*session};
  const session::Use use = co_await core->sessions.look(session);
  co_await shell_of(use, number)->close();
}

}  // namespace tb::embed
