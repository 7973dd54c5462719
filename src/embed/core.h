// SPDX-License-Identifier: Apache-2.0
// The parts of an engine that is a library: what a server has, without HTTP. Made, used and ended
// on the thread of one loop.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "code/contexts.h"
#include "config.h"
#include "embed/sharing.h"
#include "native/provider.h"
#include "session/memory_store.h"
#include "session/sessions.h"
#include "shell/runs.h"

namespace tb::embed {

// A file that a caller reads or writes piece by piece; its session is in use meanwhile.
struct Transfer {
  std::shared_ptr<session::Session> session;
  session::Use use;
  std::unique_ptr<sandbox::OpenFile> reading;
  std::unique_ptr<sandbox::NewFile> writing;
  std::uint64_t at = 0;  // bytes that were read or written
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
};

// A call of code whose events a caller takes one after another.
struct CodeStream {
  explicit CodeStream(asio::any_io_executor executor) : changed(executor) {}
  std::string lines;  // of JSON, that nobody has taken yet
  bool over = false;
  bool left = false;  // nobody will
  std::exception_ptr failure;
  Signal changed;
  std::shared_ptr<Nudge> wake;  // has the call look whether somebody is there
};

class Core {
 public:
  // Connects to the keeper of the state directory. Throws Error{unavailable} when there is none.
  Core(asio::io_context& loop, const Config& config, const registry::Registry& registry);

  // Finds the sessions that are there.
  awaitable<void> open();
  awaitable<void> close();
  // The keeper is gone, and with it every sandbox; their files are there.
  bool lost() const { return lost_; }
  // What a child process must close: it would speak for us when we are gone.
  std::vector<int> descriptors();

  // The session, if need be from what other programs told the keeper. Throws Error{not_found}.
  awaitable<std::shared_ptr<session::Session>> reach(std::string id);
  awaitable<std::shared_ptr<session::Session>> find_thread(std::string thread);
  awaitable<session::Sessions::Result> get_or_create(session::SessionSpec spec);

  std::shared_ptr<Transfer> transfer(std::uint64_t handle) const;
  std::uint64_t add(std::shared_ptr<Transfer> transfer);
  void drop(std::uint64_t handle) { transfers_.erase(handle); }

  std::shared_ptr<CodeStream> code_stream(std::uint64_t handle) const;
  std::uint64_t add(std::shared_ptr<CodeStream> stream);
  void drop_code(std::uint64_t handle) { code_streams_.erase(handle); }
  void spawn(std::string name, std::function<awaitable<void>()> task) {
    tasks_.spawn(std::move(name), std::move(task));
  }

  // While it runs, or until another program has its sandbox, no other command begins in its shell.
  void keep(shell::Run run);

  sandbox::FileLimits file_limits() const {
    return {config.max_file_size, config.max_total_files, config.limits.disk};
  }

  const Config& config;
  StateLock lock;
  NameLocks names;
  session::Metrics metrics;
  session::Events events;
  native::NativeProvider provider;
  session::Providers providers;
  session::MemoryStore store;  // what must last is in the labels that the keeper holds
  session::Sessions sessions;
  shell::Runs runs;
  code::Contexts contexts;
  std::vector<jail::Barrier> barriers;
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();

 private:
  awaitable<std::shared_ptr<session::Session>> recall(
      std::function<bool(const session::StoredSession&)> wanted);
  awaitable<void> clear_up();
  void give_way(const std::string& id);
  awaitable<void> let_go(std::string id);

  bool lost_ = false;
  TaskGroup tasks_;
  std::unordered_set<std::string> wanted_;  // sandboxes that others wait for
  std::unordered_map<std::uint64_t, std::shared_ptr<Transfer>> transfers_;
  std::unordered_map<std::uint64_t, std::shared_ptr<CodeStream>> code_streams_;
  std::uint64_t next_transfer_ = 1;
};

}  // namespace tb::embed
