// SPDX-License-Identifier: Apache-2.0
// For tests: a shell in memory.
#pragma once

#include <optional>
#include <string>

#include "base/async.h"
#include "sandbox/sandbox.h"

namespace tb::sandbox {

// Is what a test says.
class FakeShell : public Shell {
 public:
  FakeShell(asio::any_io_executor executor, std::uint32_t id) : id_(id), changed_(executor) {}
  void become(State state) {
    state_ = state;
    changed_.notify_all();
  }
  void open_again(bool with_snapshot) {
    ++opened;
    was_restored = with_snapshot;
    become(State::waiting);
  }

  ShellSpec spec;  // as it was asked for
  unsigned opened = 1;
  bool was_restored = false;
  bool is_closed = false;
  std::string directory = "/workspace";
  std::uint32_t last_run = 0;
  std::uint32_t ended_by = 0;

  std::uint32_t id() const override { return id_; }
  const ProcessInfo& info() const override { return info_; }
  State state() const override { return state_; }
  const std::string& cwd() const override { return directory; }
  unsigned generation() const override { return opened; }
  bool restored() const override { return was_restored; }
  const std::optional<Exit>& last_end() const override { return last_end_; }
  std::uint32_t last_end_run() const override { return ended_by; }
  std::uint32_t run() const override { return last_run; }
  bool closed() const override { return is_closed; }
  awaitable<void> close() override {
    is_closed = true;
    changed_.notify_all();
    co_return;
  }
  awaitable<void> changed() override {
    if (!is_closed) co_await changed_.wait();
  }

 private:
  std::uint32_t id_;
  Signal changed_;
  State state_ = State::waiting;
  ProcessInfo info_;
  std::optional<Exit> last_end_;
};

}  // namespace tb::sandbox
