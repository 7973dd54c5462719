// SPDX-License-Identifier: Apache-2.0
// A sandbox of E2B and what runs in it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/async.h"
#include "base/spool.h"
#include "e2b/envd.h"
#include "e2b/files.h"
#include "e2b/process.h"
#include "sandbox/sandbox.h"

namespace tb::e2b {

// Where commands begin, and where files of ours are kept in every sandbox.
constexpr const char* kWorkspace = "/workspace";
constexpr const char* kOurs = "/tmp/.threadbox";

class E2bSandbox : public sandbox::Sandbox, public std::enable_shared_from_this<E2bSandbox> {
 public:
  struct Settings {
    std::string dir;  // of its processes' output and records; made with the first one
    sandbox::OutputLimits output;
  };
  E2bSandbox(asio::any_io_executor executor, std::string id, std::string label, Settings settings,
             std::shared_ptr<Envd> envd, Spools& spools);

  // Makes the workspace the template's user's own. Throws Error that says what is missing.
  awaitable<void> set_up();
  // Processes of an earlier server are followed again.
  void adopt_processes();
  void set_label(std::string label) { label_ = std::move(label); }
  // It is gone: what runs in it is lost.
  void close();
  // Ends all that goes on for it here. It must be awaited before the last reference goes.
  awaitable<void> shut();
  void remove_files() const;

  const std::string& id() const override { return id_; }
  const std::string& label() const override { return label_; }
  bool alive() const override { return alive_; }
  awaitable<std::shared_ptr<sandbox::Process>> start(sandbox::Command command) override;
  std::shared_ptr<sandbox::Process> find_process(std::uint32_t id) const override;
  std::vector<std::shared_ptr<sandbox::Process>> processes() const override;
  void notified(std::uint32_t process) override;
  awaitable<std::shared_ptr<sandbox::Shell>> open_shell(sandbox::ShellSpec spec) override;
  std::shared_ptr<sandbox::Shell> find_shell(std::uint32_t) const override { return nullptr; }
  std::vector<std::shared_ptr<sandbox::Shell>> shells() const override { return {}; }
  sandbox::Files& files() override { return files_; }
  awaitable<sandbox::Load> load() override;

 private:
  std::shared_ptr<E2bProcess> make_process(std::uint32_t id, std::string run,
                                           sandbox::ProcessInfo info);
  awaitable<json::object> to_start(sandbox::Command& command, const std::string& run);
  awaitable<std::string> put_script(std::string script, std::string run);
  void save(const E2bProcess& process) const;
  bool load_process(std::uint32_t id);
  void follow(const std::shared_ptr<E2bProcess>& process);
  void forget_old();
  std::string path_of(std::uint32_t id) const { return settings_.dir + "/" + std::to_string(id); }
  Error ended() const { return Error{Code::unavailable, "the sandbox has ended"}; }

  asio::any_io_executor executor_;
  std::string id_;
  std::string label_;
  Settings settings_;
  std::shared_ptr<Envd> envd_;
  bool alive_ = true;
  std::uint32_t next_ = 1;
  std::map<std::uint32_t, std::shared_ptr<E2bProcess>> processes_;
  E2bFiles files_;
  TaskGroup tasks_;
};

}  // namespace tb::e2b
