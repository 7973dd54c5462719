// SPDX-License-Identifier: Apache-2.0
// For tests: sandboxes in memory, whose set-up can be held back or made to fail.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/async.h"
#include "base/error.h"
#include "sandbox/fake_files.h"
#include "sandbox/fake_shell.h"
#include "sandbox/sandbox.h"

namespace tb::sandbox {

class FakeProcess : public Process {
 public:
  FakeProcess(asio::any_io_executor executor, std::uint32_t id, Command what)
      : command(std::move(what)),
        input_is_open(command.keep_stdin_open || command.terminal),
        id_(id),
        changed_(executor) {
    input = command.input;
    info_.tag = command.tag;
    info_.key = command.key;
    info_.notify_url = command.notify_url;
    info_.command = command.script;
    for (const std::string& word : command.argv) {
      info_.command += (info_.command.empty() ? "" : " ") + word;
    }
    info_.cwd = command.cwd;
    info_.terminal = command.terminal.has_value();
    info_.started = std::chrono::system_clock::now();
    info_.pid = static_cast<int>(id) + 1;
  }

  Command command;
  std::string out;
  std::string err;
  bool truncated = false;
  std::string input;  // all that it got
  bool input_is_open;
  bool input_full = false;                    // writers wait until take_input()
  std::vector<std::pair<int, bool>> signals;  // number, tree
  bool background = false;                    // its streams stay open after its end

  void print(const std::string& text, Stream stream = Stream::out) {
    (stream == Stream::err ? err : out) += text;
    changed_.notify_all();
  }
  void take_input() {
    input_full = false;
    changed_.notify_all();
  }
  void end_background() {
    background = false;
    changed_.notify_all();
  }
  void end(Exit exit) {
    exit_ = std::move(exit);
    if (const auto told = std::exchange(on_exit_, nullptr)) told(*exit_);
    input_is_open = false;
    changed_.notify_all();
  }

  std::uint32_t id() const override { return id_; }
  const ProcessInfo& info() const override { return info_; }
  const std::optional<Exit>& exit() const override { return exit_; }
  awaitable<Exit> wait() override {
    while (!exit_) co_await changed_.wait();
    co_return *exit_;
  }
  void on_exit(std::function<void(const Exit&)> callback) override {
    if (!exit_) on_exit_ = std::move(callback);
  }
  void kill() override { end(ended_by(Cause::killed, 137)); }
  void signal(int number, bool tree) override {
    if (number < 1 || number > 64) throw Error{Code::invalid, "no such signal"};
    signals.emplace_back(number, tree);
    if (number == 9) kill();
  }
  awaitable<void> write_input(std::string bytes) override {
    while (input_full && input_is_open) co_await changed_.wait();
    if (!input_is_open) throw Error{Code::conflict, "stdin is closed"};
    input += bytes;
    changed_.notify_all();
  }
  awaitable<std::size_t> offer_input(std::string bytes, Milliseconds limit) override {
    auto ready = [this] { return !input_full || !input_is_open; };
    if (!co_await changed_.until(ready, limit)) co_return 0;
    const std::size_t size = bytes.size();
    co_await write_input(std::move(bytes));
    co_return size;
  }
  void close_input() override {
    if (command.terminal && input_is_open) {
      input += '\4';
    } else {
      input_is_open = false;
    }
    changed_.notify_all();
  }
  bool input_open() const override { return input_is_open; }
  void resize(unsigned rows, unsigned columns) override {
    if (!command.terminal || rows == 0 || columns == 0) throw Error{Code::invalid, "no terminal"};
    command.terminal = Terminal{rows, columns};
  }
  static Exit ended_by(Cause cause, int code) {
    Exit exit;
    exit.cause = cause;
    exit.code = code;
    return exit;
  }
  std::uint64_t output_size(Stream stream) const override { return text(stream).size(); }
  Captured captured(Stream stream) const override {
    return {text(stream), truncated, text(stream).size()};
  }
  std::string read_output(Stream stream, std::uint64_t offset, std::size_t limit) const override {
    const std::string all = text(stream);
    return offset < all.size() ? all.substr(offset, limit) : std::string{};
  }
  std::optional<FilePart> find_output(Stream, std::uint64_t, std::size_t) const override {
    return std::nullopt;
  }
  awaitable<void> wait_output(Stream stream, std::uint64_t offset) override {
    while (text(stream).size() <= offset && !output_ended(stream)) co_await changed_.wait();
  }
  std::uint64_t next_output(Stream, std::uint64_t offset) const override { return offset; }
  bool output_ended(Stream) const override { return exit_ && !background; }

 private:
  std::string text(Stream stream) const {
    return stream == Stream::out ? out : stream == Stream::err ? err : out + err;
  }

  std::uint32_t id_;
  ProcessInfo info_;
  std::optional<Exit> exit_;
  std::function<void(const Exit&)> on_exit_;
  Signal changed_;
};

// What a new process does: by default it prints its script and ends well.
using OnStart = std::function<void(FakeProcess&)>;

class FakeSandbox : public Sandbox {
 public:
  FakeSandbox(asio::any_io_executor executor, SandboxSpec what, const OnStart& on_start)
      : spec(std::move(what)), executor_(executor), on_start_(on_start) {}

  SandboxSpec spec;
  bool is_alive = true;
  std::vector<std::shared_ptr<FakeProcess>> started;

  const std::string& id() const override { return spec.id; }
  const std::string& label() const override { return spec.label; }
  bool alive() const override { return is_alive; }
  awaitable<std::shared_ptr<Process>> start(Command command) override {
    if (!is_alive) throw Error{Code::unavailable, "the sandbox is gone"};
    const auto id = static_cast<std::uint32_t>(started.size() + 1);
    auto process = std::make_shared<FakeProcess>(executor_, id, std::move(command));
    started.push_back(process);
    if (on_start_) {
      on_start_(*process);
    } else {
      process->out = process->command.script;
      process->end({});
    }
    co_return process;
  }
  std::shared_ptr<Process> find_process(std::uint32_t id) const override {
    return id >= 1 && id <= started.size() ? started[id - 1] : nullptr;
  }
  std::vector<std::shared_ptr<Process>> processes() const override {
    return {started.begin(), started.end()};
  }
  std::vector<std::uint32_t> told;  // processes whose end was
  void notified(std::uint32_t process) override { told.push_back(process); }
  awaitable<std::shared_ptr<Shell>> open_shell(ShellSpec wanted) override {
    auto shell =
        std::make_shared<FakeShell>(executor_, static_cast<std::uint32_t>(shell_list.size() + 1));
    shell->spec = std::move(wanted);
    shell_list.push_back(shell);
    co_return shell;
  }
  std::shared_ptr<Shell> find_shell(std::uint32_t id) const override {
    return id >= 1 && id <= shell_list.size() ? shell_list[id - 1] : nullptr;
  }
  std::vector<std::shared_ptr<Shell>> shells() const override {
    return {shell_list.begin(), shell_list.end()};
  }
  std::vector<std::shared_ptr<FakeShell>> shell_list;
  FakeFiles stored;
  Files& files() override { return stored; }
  awaitable<Load> load() override {
    Load load;
    load.memory = 1_MiB;
    co_return load;
  }

 private:
  asio::any_io_executor executor_;
  const OnStart& on_start_;
};

class FakeProvider : public Provider {
 public:
  explicit FakeProvider(asio::any_io_executor executor) : executor_(executor), let_go_(executor) {}

  // What it is to do.
  unsigned failures = 0;         // so many of the next creations fail
  std::vector<Found> found;      // what list() tells
  OnStart on_start;              // what processes do
  void hold() { held_ = true; }  // creations wait until let_go()
  void let_go() {
    held_ = false;
    let_go_.notify_all();
  }
  // One ends by itself.
  void die(const std::string& id, bool files_kept) {
    if (const auto at = sandboxes.find(id); at != sandboxes.end()) {
      at->second->is_alive = false;
      sandboxes.erase(at);
    }
    if (gone_) gone_(id, files_kept);
  }

  bool lets_rest = true;  // else something is in each sandbox

  // What happened.
  unsigned creations = 0;  // begun
  unsigned rests = 0;      // the same
  std::vector<std::string> destroyed;
  std::vector<std::string> adopted;
  std::map<std::string, Milliseconds> idle;                       // as last assigned or renewed
  std::map<std::string, std::shared_ptr<FakeSandbox>> sandboxes;  // that are alive

  awaitable<std::shared_ptr<Sandbox>> create(SandboxSpec spec) override {
    ++creations;
    // A real one always waits for its keeper.
    co_await asio::post(executor_, asio::use_awaitable);
    while (held_) co_await let_go_.wait();
    if (failures > 0) {
      --failures;
      throw Error{Code::unavailable, "no sandbox today"};
    }
    co_return add(std::move(spec));
  }
  awaitable<std::vector<Found>> list() override { co_return found; }
  awaitable<std::shared_ptr<Sandbox>> adopt(Found which) override {
    adopted.push_back(which.id);
    SandboxSpec spec;
    spec.id = which.id;
    spec.label = which.label;
    co_return add(std::move(spec));
  }
  void assign(Sandbox& sandbox, std::string label, Milliseconds time) override {
    static_cast<FakeSandbox&>(sandbox).spec.label = std::move(label);
    idle[sandbox.id()] = time;
  }
  void renew(Sandbox& sandbox, Milliseconds time) override { idle[sandbox.id()] = time; }
  awaitable<void> destroy(std::string id) override {
    destroyed.push_back(id);
    if (const auto at = sandboxes.find(id); at != sandboxes.end()) {
      at->second->is_alive = false;
      for (const auto& process : at->second->started) {
        if (!process->exit()) process->end(FakeProcess::ended_by(Cause::lost, 1));
      }
      sandboxes.erase(at);
    }
    co_return;
  }
  awaitable<bool> rest(std::string id) override {
    ++rests;
    co_await asio::post(executor_, asio::use_awaitable);
    while (held_) co_await let_go_.wait();
    const auto at = sandboxes.find(id);
    if (!lets_rest || at == sandboxes.end()) co_return false;
    at->second->is_alive = false;
    sandboxes.erase(at);
    co_return true;
  }
  void on_gone(OnGone callback) override { gone_ = std::move(callback); }

 private:
  std::shared_ptr<Sandbox> add(SandboxSpec spec) {
    const std::string id = spec.id;
    auto sandbox = std::make_shared<FakeSandbox>(executor_, std::move(spec), on_start);
    sandboxes[id] = sandbox;
    return sandbox;
  }

  asio::any_io_executor executor_;
  Signal let_go_;
  bool held_ = false;
  OnGone gone_;
};

}  // namespace tb::sandbox
