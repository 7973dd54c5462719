// SPDX-License-Identifier: Apache-2.0
#include "box/shell.h"

#include <signal.h>

#include "box/command.h"
#include "box/process.h"
#include "box/sandbox.h"

namespace tb::box {
namespace {

constexpr auto kAnswer = 15s;  // for PID 1

}  // namespace

void GuestShell::told(const guest::ShellState& state) {
  using What = guest::ShellState::What;
  if (generation_ == 0 && info_.started.time_since_epoch().count() == 0) {
    from_note(state.note, info_);  // an earlier server's
  }
  to_be_told_ = false;
  info_.pid = state.pid;
  state_ = state.what == What::runs    ? State::running
           : state.what == What::waits ? State::waiting
                                       : State::dead;
  closed_ = state.what == What::closed;
  cwd_ = state.cwd;
  generation_ = state.generation;
  restored_ = state.restored != 0;
  run_ = state.run;
  if (state.ended) {
    guest::Exited exited;
    exited.code = state.code;
    exited.signal = state.signal;
    exited.cause = state.cause;
    last_end_ = translate(exited);
    last_end_run_ = state.ended_run;
  }
  changed_.notify_all();
}

void GuestShell::open_failed(const guest::Failure& failure) {
  failure_ = failure;
  closed_ = true;
  changed_.notify_all();
}

void GuestShell::lost() {
  closed_ = true;
  state_ = State::dead;
  if (generation_ == 0) failure_ = guest::Failure{id_, ECONNRESET, "stay alive"};
  changed_.notify_all();
}

bool GuestShell::begin_again() {
  to_be_told_ = generation_ > 0;
  if (!to_be_told_) lost();
  return !to_be_told_;
}

awaitable<bool> GuestShell::wait_opened(Milliseconds limit) {
  const auto self = shared_from_this();
  auto known = [this] { return generation_ > 0 || failure_.has_value(); };
  const bool answered = co_await changed_.until(known, limit);
  if (failure_) throw explain(*failure_);
  co_return answered;
}

awaitable<void> GuestShell::close() {
  const auto self = shared_from_this();
  Writer out;
  guest::Signal{id_, SIGKILL, 1}.encode(out);
  tell_(out.take());
  auto gone = [this] { return closed_; };
  const bool answered = co_await changed_.until(gone, kAnswer);
  if (!answered) throw Error{Code::unavailable, "the sandbox does not answer"};
}

awaitable<void> GuestShell::changed() {
  const auto self = shared_from_this();
  if (!closed_) co_await changed_.wait();
}

// ---- the shells of a sandbox ----

std::shared_ptr<GuestShell> GuestSandbox::make_shell(std::uint32_t id) {
  auto tell = [self = weak_from_this()](std::string message) {
    if (auto sandbox = self.lock()) sandbox->tell(std::move(message));
  };
  return std::make_shared<GuestShell>(executor_, id, std::move(tell));
}

void GuestSandbox::told_shell(Reader& in) {
  guest::ShellState state;
  if (!guest::ShellState::decode(in, state)) return;
  const auto found = shells_.find(state.id);
  std::shared_ptr<GuestShell> shell = found == shells_.end() ? nullptr : found->second;
  const bool unknown = !shell;  // an earlier server's, or closed already
  if (unknown) shell = make_shell(state.id);
  const bool news = unknown || shell->to_be_told();
  next_ = std::max(next_, state.id + 1);
  shell->told(state);
  if (shell->closed()) {
    shells_.erase(state.id);
  } else if (unknown) {
    shells_[state.id] = shell;
  }
  if (news && to_be_told_ > 0 && --to_be_told_ == 0) all_told();
}

bool GuestSandbox::told_no_shell(const guest::Failure& failure) {
  const auto found = shells_.find(failure.id);
  if (found == shells_.end()) return false;
  found->second->open_failed(failure);
  shells_.erase(found);
  return true;
}

awaitable<std::shared_ptr<sandbox::Shell>> GuestSandbox::open_shell(sandbox::ShellSpec spec) {
  const auto self = shared_from_this();
  sandbox::ProcessInfo info = describe(spec);
  if (!alive_) throw Error{Code::unavailable, "the sandbox is gone"};
  const guest::Start start = to_start(next_++, spec, info);
  Writer out;
  start.encode(out);
  auto shell = make_shell(start.id);
  shell->set_info(std::move(info));
  shells_[start.id] = shell;
  tell(out.take());
  const bool answered = co_await shell->wait_opened(kAnswer);
  if (!answered) {
    shells_.erase(start.id);
    throw Error{Code::unavailable, "the sandbox does not answer"};
  }
  co_return shell;
}

std::shared_ptr<sandbox::Shell> GuestSandbox::find_shell(std::uint32_t id) const {
  const auto found = shells_.find(id);
  return found == shells_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<sandbox::Shell>> GuestSandbox::shells() const {
  std::vector<std::shared_ptr<sandbox::Shell>> list;
  for (const auto& [id, shell] : shells_) list.push_back(shell);
  return list;
}

}  // namespace tb::box
