// SPDX-License-Identifier: Apache-2.0
// A sandbox of this machine: the server's end of the socket to its PID 1.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "base/async.h"
#include "native/files.h"
#include "native/process.h"
#include "native/shell.h"
#include "os/fd.h"
#include "os/fdpass.h"
#include "sandbox/sandbox.h"

namespace tb::native {

class NativeSandbox : public sandbox::Sandbox, public std::enable_shared_from_this<NativeSandbox> {
 public:
  struct Settings {
    std::string output_dir;  // of this sandbox; made with the first command
    OutputLimits output;
    Milliseconds ahead{0};  // how long a shell that was started ahead waits for the next command
  };
  // How the keeper is asked what a sandbox takes.
  using Measure = std::function<awaitable<sandbox::Load>(std::string id)>;
  NativeSandbox(asio::any_io_executor executor, std::string id, std::string label, os::Fd control,
                Settings settings, asio::thread_pool& disk, Measure measure);

  // Begins to listen. Call once, right after make_shared.
  void open();
  // Until PID 1 says that it is ready and, after a change of servers, has told what it knows.
  // False: nothing was heard for so long.
  awaitable<bool> wait_ready(Milliseconds limit);
  void set_label(std::string label) { label_ = std::move(label); }
  // It is gone: what runs in it is lost.
  void close();
  // Another program has it from now on; what runs in it goes on.
  void detach();
  void remove_files() const;

  const std::string& id() const override { return id_; }
  const std::string& label() const override { return label_; }
  bool alive() const override { return alive_; }
  awaitable<std::shared_ptr<sandbox::Process>> start(sandbox::Command command) override;
  std::shared_ptr<sandbox::Process> find_process(std::uint32_t id) const override;
  std::vector<std::shared_ptr<sandbox::Process>> processes() const override;
  void notified(std::uint32_t process) override;
  awaitable<std::shared_ptr<sandbox::Shell>> open_shell(sandbox::ShellSpec spec) override;
  std::shared_ptr<sandbox::Shell> find_shell(std::uint32_t id) const override;
  std::vector<std::shared_ptr<sandbox::Shell>> shells() const override;
  sandbox::Files& files() override { return files_; }
  awaitable<sandbox::Load> load() override { return measure_(id_); }

 private:
  void listen();
  void on_readable();
  void receive(std::string_view packet, os::Packet& from);
  void told_started(Reader& in, os::Packet& from);
  void told_exited(Reader& in);
  void told_shell(Reader& in);
  bool told_no_shell(const guest::Failure& failure);
  std::shared_ptr<NativeShell> make_shell(std::uint32_t id);
  void note_exit(NativeProcess& process, const guest::Exited& exited);
  void all_told();
  void tell(std::string message);
  bool pass_to_helper(os::Fd socket);
  void queue(std::string message, os::Fd file);
  void flush();
  std::shared_ptr<NativeProcess> make_process(std::uint32_t id);
  void log_exit(const guest::Exited& exited, const sandbox::ProcessInfo& info);
  void append_to_log(const std::string& bytes);
  void load_earlier();
  void rewrite_log(const std::string& path);
  void restore_exits();
  void forget_old();

  asio::any_io_executor executor_;
  std::string id_;
  std::string label_;
  Settings settings_;
  asio::posix::stream_descriptor control_;
  Signal changed_;
  bool alive_ = true;
  bool ready_ = false;
  std::uint32_t to_be_told_ = 0;  // commands of before that PID 1 still has to tell of
  std::optional<guest::Failure> failure_;
  std::uint32_t next_ = 1;
  bool dir_made_ = false;
  struct Waiting {
    std::string message;
    os::Fd file;  // passed with it: the message itself when it is large, or a socket
  };
  std::deque<Waiting> queue_;  // what a busy PID 1 has not taken yet
  bool flushing_ = false;
  struct LoggedExit {
    std::uint32_t id;
    std::string bytes;  // as they stand in the log
  };
  std::deque<LoggedExit> recent_exits_;
  unsigned logged_ = 0;
  std::map<std::uint32_t, std::shared_ptr<NativeProcess>> processes_;
  std::map<std::uint32_t, std::shared_ptr<NativeShell>> shells_;
  NativeFiles files_;
  Measure measure_;
};

}  // namespace tb::native
