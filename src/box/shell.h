// SPDX-License-Identifier: Apache-2.0
// A shell of a sandbox, as PID 1 tells of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/async.h"
#include "guest/wire.h"
#include "sandbox/sandbox.h"

namespace tb::box {

class GuestShell : public sandbox::Shell, public std::enable_shared_from_this<GuestShell> {
 public:
  using Tell = std::function<void(std::string message)>;
  GuestShell(asio::any_io_executor executor, std::uint32_t id, Tell tell)
      : id_(id), tell_(std::move(tell)), changed_(executor) {}

  void set_info(sandbox::ProcessInfo info) { info_ = std::move(info); }

  // ---- what the guest told ----
  void told(const guest::ShellState& state);
  void open_failed(const guest::Failure& failure);
  void lost();
  // What carried the messages broke: it will be told of again. True: it never was before, and what
  // became of it will never be known.
  bool begin_again();
  bool to_be_told() const { return to_be_told_; }

  // False: nothing was heard for so long. Throws Error when it could not be opened.
  awaitable<bool> wait_opened(Milliseconds limit);

  std::uint32_t id() const override { return id_; }
  const sandbox::ProcessInfo& info() const override { return info_; }
  State state() const override { return state_; }
  const std::string& cwd() const override { return cwd_; }
  unsigned generation() const override { return generation_; }
  bool restored() const override { return restored_; }
  const std::optional<sandbox::Exit>& last_end() const override { return last_end_; }
  std::uint32_t last_end_run() const override { return last_end_run_; }
  std::uint32_t run() const override { return run_; }
  bool closed() const override { return closed_; }
  awaitable<void> close() override;
  awaitable<void> changed() override;

 private:
  std::uint32_t id_;
  Tell tell_;
  Signal changed_;
  sandbox::ProcessInfo info_;
  State state_ = State::waiting;
  std::string cwd_;
  unsigned generation_ = 0;  // 0: not heard of yet
  bool restored_ = false;
  std::optional<sandbox::Exit> last_end_;
  std::uint32_t last_end_run_ = 0;
  std::uint32_t run_ = 0;
  bool closed_ = false;
  bool to_be_told_ = false;
  std::optional<guest::Failure> failure_;
};

}  // namespace tb::box
