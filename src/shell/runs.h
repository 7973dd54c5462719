// SPDX-License-Identifier: Apache-2.0
// Commands in shells that live on: one at a time in each shell, the others wait in order. What a
// shell keeps between them is bash's own: directory, variables, functions, options.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/async.h"
#include "sandbox/sandbox.h"

namespace tb::shell {

// What there is to know of the shell once a command in it has ended.
struct Facts {
  std::uint32_t shell = 0;
  unsigned generation = 0;
  std::string cwd;
  bool exited = false;     // the command ended the shell: exit, exec, kill $$, set -e
  bool respawned = false;  // it was opened again since the command before, or is with the next one
  bool restored = false;   // with what it knew after its last whole run
};

class Line;  // of those who want to run something in one shell

// A command that runs in a shell. While it lives, no other one begins there: keep it until the
// process has ended or nobody cares any more.
class Run {
 public:
  Run(Run&&) noexcept;
  Run& operator=(Run&&) = delete;
  ~Run();
  const std::shared_ptr<sandbox::Process>& process() const { return process_; }
  // Once the process has ended.
  Facts facts() const;

 private:
  friend class Runs;
  Run(std::shared_ptr<Line> line, std::uint64_t place);

  std::shared_ptr<Line> line_;  // null: moved from
  std::uint64_t place_;
  std::shared_ptr<sandbox::Process> process_;
  unsigned before_ = 0;  // generation when it was its turn
};

class Runs {
 public:
  explicit Runs(asio::any_io_executor executor) : executor_(executor) {}

  // How a command becomes a process; it has `Command::shell` set.
  using Start = std::function<awaitable<std::shared_ptr<sandbox::Process>>(sandbox::Command)>;
  // Waits for its turn and starts it; its timeout begins then. Error{limited}: too many wait.
  // Error{conflict}: the shell was closed.
  awaitable<Run> start(std::shared_ptr<sandbox::Shell> shell, sandbox::Command command,
                       Start start);
  // How many wait for their turn.
  std::size_t waiting(const sandbox::Shell& shell) const;

 private:
  asio::any_io_executor executor_;
  std::unordered_map<const sandbox::Shell*, std::weak_ptr<Line>> lines_;
};

}  // namespace tb::shell
