// SPDX-License-Identifier: Apache-2.0
#include "shell/runs.h"

#include <algorithm>
#include <deque>

#include "base/error.h"

namespace tb::shell {
namespace {

constexpr std::size_t kMaxWaiting = 32;

Error closed() { return {Code::conflict, "the shell was closed"}; }

}  // namespace

class Line {
 public:
  Line(asio::any_io_executor executor, std::shared_ptr<sandbox::Shell> which)
      : shell(std::move(which)), moved(executor) {}

  std::shared_ptr<sandbox::Shell> shell;
  std::deque<std::uint64_t> places;  // the first one has its turn
  std::uint64_t next = 0;
  Signal moved;
};

Run::Run(std::shared_ptr<Line> line, std::uint64_t place) : line_(std::move(line)), place_(place) {}

Run::Run(Run&& other) noexcept = default;

Run::~Run() {
  if (!line_) return;
  std::erase(line_->places, place_);
  line_->moved.notify_all();
}

Facts Run::facts() const {
  const sandbox::Shell& shell = *line_->shell;
  const std::optional<sandbox::Exit>& exit = process_->exit();
  const bool by_us =
      exit && (exit->cause == sandbox::Cause::timeout || exit->cause == sandbox::Cause::killed);
  Facts facts;
  facts.shell = shell.id();
  facts.generation = shell.generation();
  facts.cwd = shell.cwd();
  facts.exited = shell.last_end_run() == process_->id() && !by_us;
  facts.respawned = shell.generation() != before_;
  facts.restored = facts.respawned && shell.restored();
  return facts;
}

awaitable<Run> Runs::start(std::shared_ptr<sandbox::Shell> shell, sandbox::Command command,
                           Start start) {
  if (shell->closed()) throw closed();
  std::shared_ptr<Line> line = lines_[shell.get()].lock();
  if (!line) {
    std::erase_if(lines_, [](const auto& entry) { return entry.second.expired(); });
    line = std::make_shared<Line>(executor_, shell);
    lines_[shell.get()] = line;
  }
  if (line->places.size() > kMaxWaiting) {
    throw Error{Code::limited, "too many commands wait for the shell: open another one"};
  }
  Run run{line, line->next++};
  line->places.push_back(run.place_);
  while (line->places.front() != run.place_) co_await line->moved.wait();
  // One that nobody waits for any more, or that an earlier server began.
  while (!shell->closed() && shell->state() == sandbox::Shell::State::running) {
    co_await shell->changed();
  }
  if (shell->closed()) throw closed();
  run.before_ = shell->generation();
  command.shell = shell->id();
  run.process_ = co_await start(std::move(command));
  co_return run;
}

std::size_t Runs::waiting(const sandbox::Shell& shell) const {
  const auto found = lines_.find(&shell);
  const auto line = found == lines_.end() ? nullptr : found->second.lock();
  return line && !line->places.empty() ? line->places.size() - 1 : 0;
}

}  // namespace tb::shell
