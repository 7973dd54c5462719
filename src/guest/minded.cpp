// SPDX-License-Identifier: Apache-2.0
// Commands where there are no cgroups: what their minders tell.
#include <signal.h>
#include <sys/wait.h>

#include "guest/commands.h"

namespace tb::guest {
namespace {

constexpr int kNoProgram = 127;  // as a shell tells that one can't be executed

}  // namespace

void Commands::on_minder(Command& command) {
  MinderReport report;
  const int result = read_report(command.minder.reports, report);
  if (result == 0) return;
  if (command.offer >= 0 && (result < 0 || report.ended || report.failed.text)) {
    if (!settle(command)) return;
  }
  if (result > 0 && report.failed.text && opened_before(command)) {
    close_fd(command.minder.reports);
    return leader_ended(command, kNoProgram << 8);
  }
  if (result > 0 && report.failed.text) {
    command.failure = Failure{command.id, report.failed.number, report.failed.text};
  } else if (result > 0 && !report.ended) {
    command.pid = report.pid;
    command.running = command.offer < 0;
    return;
  } else if (!command.exit) {
    // One that goes without a word was ended, by us or by the command itself.
    if (result < 0) report.status = SIGKILL;
    command.running = true;
    close_fd(command.minder.reports);  // first: a shell is opened again, and has another one then
    return ended(command, report.status, report.cpu_us, report.peak_bytes);
  }
  close_fd(command.minder.reports);
}

void Commands::minder_ended(int pid, int status) {
  if (waiting_ && waiting_->minder.pid == pid) {
    waiting_->minder.pid = -1;
    waiting_ended();
  }
  std::vector<int> alive = spared_;
  if (waiting_ && waiting_->minder.pid > 0) alive.push_back(waiting_->minder.pid);
  bool killed = false;
  for (const auto& command : commands_) {
    if (command->minder.pid == pid) {
      command->minder.pid = -1;
      killed = WIFSIGNALED(status);
    } else if (command->minder.pid > 0) {
      alive.push_back(command->minder.pid);
    }
  }
  for (const int minder : old_minders_) {
    if (minder != pid) alive.push_back(minder);
  }
  std::erase(old_minders_, pid);
  if (killed) end_strays(alive);
}

}  // namespace tb::guest
