// SPDX-License-Identifier: Apache-2.0
// A process in a sandbox of E2B: follows its stream, which may break and be opened again, and keeps
// what it says.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "base/async.h"
#include "e2b/envd.h"
#include "e2b/told_output.h"
#include "sandbox/sandbox.h"

namespace tb::e2b {

using sandbox::Stream;

// Runs work in the background for as long as the sandbox lives.
using Spawn = std::function<void(std::string name, std::function<awaitable<void>()> task)>;

// Everything that a process was started as finds it again: its tag, and a variable in its
// environment and in that of what it starts.
constexpr const char* kRunVariable = "THREADBOX_RUN";

class E2bProcess : public sandbox::Process, public std::enable_shared_from_this<E2bProcess> {
 public:
  struct Parts {
    asio::any_io_executor executor;
    std::shared_ptr<Envd> envd;
    Spawn spawn;
    std::string path;  // of its files, without ending
    sandbox::OutputLimits limits;
  };
  E2bProcess(Parts parts, std::uint32_t id, std::string run, sandbox::ProcessInfo info);

  // ---- for the sandbox ----
  // Reads until it has started; Error{invalid} when it can't. Afterwards follow() is due.
  awaitable<void> begin(std::unique_ptr<Events> events, bool asks);
  // Reads to its end, over streams that break. Throws nothing but being cancelled.
  awaitable<void> follow();
  // One of an earlier server: where it stands is asked by follow().
  void resume(std::optional<Milliseconds> timeout_left);
  void set_timeout(std::optional<Milliseconds> timeout);
  void open_input(std::string beginning, bool stays_open);
  void lost();
  void restore(sandbox::Exit exit);
  const std::string& run() const { return run_; }
  void forget_notify() { info_.notify_url.clear(); }
  // Whatever is worth to be written down has changed.
  void on_change(std::function<void()> callback) { on_change_ = std::move(callback); }
  std::optional<std::chrono::system_clock::time_point> deadline() const { return deadline_at_; }
  bool takes_input() const { return input_open_; }

  std::uint32_t id() const override { return id_; }
  const sandbox::ProcessInfo& info() const override { return info_; }
  const std::optional<sandbox::Exit>& exit() const override { return exit_; }
  awaitable<sandbox::Exit> wait() override;
  void on_exit(std::function<void(const sandbox::Exit&)> callback) override;
  void kill() override { end_by(sandbox::Cause::killed); }
  void signal(int number, bool tree) override;

  awaitable<void> write_input(std::string bytes) override;
  awaitable<std::size_t> offer_input(std::string bytes, Milliseconds limit) override;
  void close_input() override;
  bool input_open() const override { return input_open_ && !exit_; }
  void resize(unsigned rows, unsigned columns) override;

  std::uint64_t output_size(Stream stream) const override { return output_.kept().total(stream); }
  sandbox::Captured captured(Stream stream) const override {
    return output_.kept().captured(stream);
  }
  std::string read_output(Stream stream, std::uint64_t offset, std::size_t limit) const override {
    return output_.kept().read(stream, offset, limit);
  }
  std::optional<sandbox::FilePart> find_output(Stream stream, std::uint64_t offset,
                                               std::size_t limit) const override {
    return output_.kept().find(stream, offset, limit);
  }
  std::uint64_t next_output(Stream stream, std::uint64_t offset) const override {
    return output_.kept().next_readable(stream, offset);
  }
  awaitable<void> wait_output(Stream stream, std::uint64_t offset) override;
  bool output_ended(Stream stream) const override {
    return output_.kept().at_end(stream) || exit_.has_value();
  }

 private:
  json::object selector() const { return {{"tag", run_}}; }
  bool take(const json::object& message);
  void take_data(const json::object& data);
  void told_end(const json::object& end);
  void set_exit(sandbox::Exit exit);
  awaitable<bool> reconnect();
  awaitable<void> hang_up();
  void note_gap();
  void end_by(sandbox::Cause cause);
  awaitable<void> end_tree();
  sandbox::Exit forced_exit() const;

  struct Sending;
  struct Turn;
  std::shared_ptr<Turn> queue_up();
  awaitable<void> wait_turn(const Turn& turn);
  awaitable<bool> wait_listened_to(std::chrono::steady_clock::time_point until);
  awaitable<std::size_t> send_input(std::shared_ptr<Turn> turn, std::string bytes,
                                    std::optional<Milliseconds> limit);
  awaitable<bool> send_piece(std::string piece, std::chrono::steady_clock::time_point until);
  void refuse_input() const;

  Parts parts_;
  std::uint32_t id_;
  std::string run_;
  sandbox::ProcessInfo info_;
  ToldOutput output_;
  Signal changed_;
  std::unique_ptr<Events> events_;
  bool listened_to_ = false;  // what it prints now arrives
  std::string asked_;         // the first bytes of stdout, of one that was asked whether it can run
  bool asks_ = false;
  std::optional<sandbox::Exit> exit_;
  std::function<void(const sandbox::Exit&)> on_exit_;
  std::function<void()> on_change_;
  std::optional<sandbox::Cause> ending_;
  asio::steady_timer deadline_;
  std::optional<std::chrono::system_clock::time_point> deadline_at_;
  bool input_open_ = false;
  std::list<char> writers_;  // have their turns in the order of their calls
  std::shared_ptr<Sending> sending_;
};

}  // namespace tb::e2b
