// SPDX-License-Identifier: Apache-2.0
// Commands of a session: checked by its policy, started, waited for.
#include "base/error.h"
#include "session/sessions.h"

namespace tb::session {
namespace {

constexpr Milliseconds kMargin = 5s;  // beyond a command's timeout, for its end to arrive

Refused refused_because(const policy::Refusal& refusal) {
  if (refusal.pattern) return Refused::forbidden;
  if (refusal.message == "Empty command") return Refused::empty;
  if (refusal.message.starts_with("Command '")) return Refused::not_allowed;
  if (refusal.message.starts_with("Invalid command syntax")) return Refused::syntax;
  return Refused::unresolved;
}

std::string text_of(const sandbox::Command& command) {
  if (!command.script.empty() || command.argv.empty()) return command.script;
  std::string text;
  for (const std::string& word : command.argv) text += (text.empty() ? "" : " ") + word;
  return text;
}

// The text that a policy can read: words of an argv are data, whatever they hold.
std::string as_script(const sandbox::Command& command) {
  if (!command.script.empty() || command.argv.empty()) return command.script;
  std::string text;
  for (const std::string& word : command.argv) {
    text += text.empty() ? "'" : " '";
    for (const char c : word) text += c == '\'' ? std::string{"'\\''"} : std::string(1, c);
    text += "'";
  }
  return text;
}

}  // namespace

void Sessions::check(const policy::Policy& policy, const sandbox::Command& command, const Who& who,
                     const Variables& variables) {
  Variables all = variables;
  all.insert(all.end(), command.env.begin(), command.env.end());
  std::optional<policy::Refusal> refusal = policy.check(as_script(command), all);
  for (auto at = command.env.begin(); !refusal && at != command.env.end(); ++at) {
    refusal = policy.check_variable(at->first, at->second);
  }
  if (!refusal && command.terminal && !policy.allows_terminals()) {
    refusal.emplace();
    refusal->message = "The policy " + policy.name() +
                       " has no terminals: what is typed into one can't be checked";
  }
  if (!refusal) return;
  const std::string text = text_of(command);
  events_.validation_failed(who, text, refused_because(*refusal), refusal->message);
  throw PolicyError{std::move(*refusal), text};
}

awaitable<std::shared_ptr<sandbox::Process>> Sessions::start(std::shared_ptr<Session> session,
                                                             sandbox::Command command, Who who) {
  const Variables& variables = session->surroundings.variables;
  check(session->policy, command, who, variables);
  if (command.shell == 0) {  // a shell has them already
    // Before the client's own, which win.
    command.env.insert(command.env.begin(), variables.begin(), variables.end());
  }
  co_await awake(session);
  const Milliseconds more = command.timeout ? *command.timeout + kMargin : Milliseconds{0};
  touch(*session, more);
  const Busy busy{*session};
  const std::shared_ptr<sandbox::Sandbox> sandbox = session->sandbox;
  if (!sandbox) throw Error{Code::unavailable, "the sandbox ended again at once"};
  const std::string text = text_of(command);
  auto held = limits::Hold::take(limits_, session->owner(), limits::Stock::processes);
  std::shared_ptr<sandbox::Process> process;
  try {
    process = co_await sandbox->start(std::move(command));
  } catch (const Error& error) {
    events_.command_not_started(who, text, error.what());
    throw;
  }
  events_.command_started(*process, who, text, std::move(held));
  const bool told = notifier_ && !process->info().notify_url.empty();
  if (told) co_await notifier_->expect(session, sandbox, process);
  co_return process;
}

awaitable<std::shared_ptr<sandbox::Process>> Sessions::start_once(std::shared_ptr<Session> session,
                                                                  sandbox::Command command,
                                                                  Who who) {
  if (command.key.empty()) co_return co_await start(session, std::move(command), who);
  const std::string key = command.key;
  const std::string place = session->id + " " + key;
  while (const auto under_way = find_starting(place)) co_await under_way->done.wait();
  if (const auto sandbox = session->known()) {
    for (const auto& process : sandbox->processes()) {
      if (process->info().key == key) co_return process;
    }
  }
  auto creation = std::make_shared<Creation>(executor_);
  starting_[place] = creation;
  std::shared_ptr<sandbox::Process> process;
  std::exception_ptr failure;
  try {
    process = co_await start(session, std::move(command), who);
  } catch (...) {
    failure = std::current_exception();
  }
  starting_.erase(place);
  creation->done.notify_all();
  if (failure) std::rethrow_exception(failure);
  co_return process;
}

std::shared_ptr<Sessions::Creation> Sessions::find_starting(const std::string& place) const {
  const auto found = starting_.find(place);
  return found == starting_.end() ? nullptr : found->second;
}

awaitable<std::shared_ptr<sandbox::Process>> Sessions::execute(std::shared_ptr<Session> session,
                                                               sandbox::Command command, Who who) {
  const auto process = co_await start(session, std::move(command), who);
  co_await process->wait();
  ended(session);
  co_return process;
}

void Sessions::ended(const std::shared_ptr<Session>& session) {
  if (find(session->id) == session) touch(*session);
}

}  // namespace tb::session
