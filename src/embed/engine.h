// SPDX-License-Identifier: Apache-2.0
// The engine as a library: a loop in a thread of its own, to which any thread hands work.
//
// Nothing runs until the first work comes; then the keeper is started if there is none, and what
// earlier processes left is found. When the keeper is lost, the next work starts again in the same
// way, and so does the first work in a child after fork(2): the parent's engine stays the parent's.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "embed/core.h"

namespace tb::embed {

struct Settings {
  Config config;
  std::string program;  // threadbox, for the keeper
};

// Work that was handed over. Held by the engine until its end.
class Operation {
 public:
  using Work = std::function<awaitable<void>(std::shared_ptr<Core> core)>;
  // Called on the engine's thread, once; with what was thrown.
  using Done = std::function<void(std::exception_ptr failure)>;
  // Ends what lets itself not be cancelled: a command. On the engine's thread.
  using Stop = std::function<void()>;

 private:
  friend class Engine;
  struct Running;
  void cancel();  // on the engine's thread

  Work work_;
  Done done_;
  Stop stop_;
  asio::cancellation_signal cancel_;
  bool over_ = false;
  bool closed_ = false;  // ended by the engine's end: then it has no result
};

class Engine {
 public:
  explicit Engine(Settings settings);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Any thread may call these.
  std::shared_ptr<Operation> submit(Operation::Work work, Operation::Done done,
                                    Operation::Stop stop = {});
  // Stops it, and its waits end with an error (operation_aborted), unless it is over.
  void cancel(const std::shared_ptr<Operation>& operation);
  // Runs `task` on the engine's thread, if there is one.
  void post(std::function<void()> task);
  // Ends the thread; sessions stay as the keeper's rules have it. Work that has not ended fails.
  // What comes later starts again.
  void close();

  const Config& config() const { return settings_.config; }

 private:
  class Loop;
  friend struct Family;
  std::shared_ptr<Loop> loop();
  void abandon();

  const Settings settings_;
  const registry::Registry registry_;
  std::shared_ptr<Loop> loop_;
};

// Where state lives unless it is said: of this user, and not the server's.
std::string default_state_dir();
// The defaults of a server, but for one program on its user's own machine.
Config local_config();
// Applies settings by the names of `threadbox serve`. Throws Error{invalid} that lists everything
// that is wrong or unknown.
void apply(Config& config, const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace tb::embed
