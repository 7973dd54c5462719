// SPDX-License-Identifier: Apache-2.0
// A sandbox with a guest in it, whatever carries the messages: its processes, and what is
// remembered of them for the next server.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/async.h"
#include "box/process.h"
#include "box/shell.h"
#include "os/fd.h"
#include "sandbox/sandbox.h"

namespace tb::box {

class GuestSandbox : public sandbox::Sandbox, public std::enable_shared_from_this<GuestSandbox> {
 public:
  struct Settings {
    std::string output_dir;  // of this sandbox; made with the first command
    OutputLimits output;
    Milliseconds ahead{0};  // how long a shell that was started ahead waits for the next command
  };
  GuestSandbox(asio::any_io_executor executor, std::string id, std::string label,
               Settings settings);

  // Until PID 1 says that it is ready and, after a change of servers, has told what it knows.
  // False: nothing was heard for so long.
  awaitable<bool> wait_ready(Milliseconds limit);
  void set_label(std::string label);
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
  std::vector<std::shared_ptr<sandbox::Process>> running() const override;
  void expect_command() override;
  void notified(std::uint32_t process) override;
  // ---- shell.cpp ----
  awaitable<std::shared_ptr<sandbox::Shell>> open_shell(sandbox::ShellSpec spec) override;
  std::shared_ptr<sandbox::Shell> find_shell(std::uint32_t id) const override;
  std::vector<std::shared_ptr<sandbox::Shell>> shells() const override;

 protected:
  // Never waits: one sandbox that does not answer must not hold up the others.
  virtual void tell(std::string message) = 0;
  // Nothing is heard or told from here on.
  virtual void disconnect() = 0;
  // Gives a process its streams; false: they did not come.
  virtual bool connect(GuestProcess& process, const guest::Started& started,
                       std::span<os::Fd> passed) = 0;

  // What an earlier server had stored can still be read. Call once, before anything is received.
  void load_earlier();
  void receive(std::string_view message, std::span<os::Fd> passed);
  // What carried the messages broke: PID 1 will tell all again, and starts that wait fail.
  void begin_again();
  std::shared_ptr<GuestProcess> find_guest_process(std::uint32_t id) const;
  const std::map<std::uint32_t, std::shared_ptr<GuestProcess>>& all() const { return processes_; }
  asio::any_io_executor executor() const { return executor_; }

 private:
  // Finished ones whose output can still be read.
  static constexpr std::size_t kKeptProcesses = 64;

  void told_started(Reader& in, std::span<os::Fd> passed);
  void told_exited(Reader& in);
  void told_both(Reader& in, std::span<os::Fd> passed);
  void told_shell(Reader& in);
  bool told_no_shell(const guest::Failure& failure);
  std::shared_ptr<GuestShell> make_shell(std::uint32_t id);
  void note_exit(const std::shared_ptr<GuestProcess>& process, const guest::Exited& exited);
  void all_told();
  std::shared_ptr<GuestProcess> make_process(std::uint32_t id, Earlier earlier);
  void store_later(const std::shared_ptr<GuestProcess>& process);
  void forget_old();
  void ask_for_shell(Milliseconds wait);
  void make_dir();
  // ---- exits.cpp ----
  void log_exit(const guest::Exited& exited, const GuestProcess& process);
  void append_to_log(const std::string& bytes);
  void rewrite_log(const std::string& path);
  void restore_exits();
  void restore_record(std::string_view record);
  void forget(const GuestProcess& process);
  void remember_logged(std::uint32_t id, std::string_view record, bool begins);

  asio::any_io_executor executor_;
  std::string id_;
  std::string label_;
  Settings settings_;
  Signal changed_;
  bool alive_ = true;
  bool ready_ = false;
  std::uint32_t to_be_told_ = 0;  // commands of before that PID 1 still has to tell of
  std::optional<guest::Failure> failure_;
  std::uint32_t next_ = 1;
  bool expects_command_ = false;  // of whoever will get it
  bool commanded_ = false;        // since somebody has
  bool dir_made_ = false;
  struct LoggedExit {
    std::uint32_t id;
    std::string bytes;  // as they stand in the log
  };
  std::deque<LoggedExit> recent_exits_;
  std::string forgotten_;  // records of those that the log does not know to be gone
  unsigned logged_ = 0;
  std::map<std::uint32_t, std::shared_ptr<GuestProcess>> processes_;
  mutable std::vector<std::uint32_t> unended_;  // and some that have: looked at, they go
  std::map<std::uint32_t, std::shared_ptr<GuestShell>> shells_;
};

}  // namespace tb::box
