// SPDX-License-Identifier: Apache-2.0
// Sandboxes of this machine, made by its keeper.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_set>

#include "native/keeper_client.h"
#include "native/sandbox.h"
#include "sandbox/sandbox.h"

namespace tb::native {

class NativeProvider : public sandbox::Provider, public sandbox::VolumeHost {
 public:
  NativeProvider(asio::any_io_executor executor, const std::string& state_dir,
                 sandbox::OutputLimits output);

  // How isolated sandboxes are on this host; and what an earlier keeper had left behind.
  awaitable<jail::Welcome> hello() { return keeper_.hello(); }
  KeeperClient& keeper() { return keeper_; }
  // Tests of the set-up: the n-th system call of the next creation fails.
  void fail_next_create_at(unsigned n) { fail_at_ = n; }
  // Others have the same state directory: their output is not ours to clear away.
  void share() { shared_ = true; }
  // After a command a shell is started for the next one, and waits for so long; 0: none is.
  void start_ahead(Milliseconds wait) { ahead_ = wait; }
  void clear_stray_output(const std::vector<sandbox::Found>& known) const;
  void on_lost(std::function<void(bool in_order)> callback) {
    keeper_.on_lost(std::move(callback));
  }
  awaitable<void> close() { return keeper_.close(); }

  awaitable<std::shared_ptr<sandbox::Sandbox>> create(sandbox::SandboxSpec spec) override;
  awaitable<std::vector<sandbox::Found>> list() override;
  awaitable<std::shared_ptr<sandbox::Sandbox>> adopt(sandbox::Found found) override;
  awaitable<std::shared_ptr<sandbox::Sandbox>> join(sandbox::Found found) override;
  void release(sandbox::Sandbox& sandbox) override;
  void assign(sandbox::Sandbox& sandbox, std::string label, Milliseconds idle) override;
  void renew(sandbox::Sandbox& sandbox, Milliseconds idle) override;
  awaitable<void> destroy(std::string id) override;
  awaitable<bool> rest(std::string id) override;
  void on_gone(sandbox::OnGone callback) override;

  sandbox::VolumeHost* volumes() override { return this; }
  awaitable<void> make_volume(std::string id, Bytes limit, std::string label) override;
  awaitable<std::vector<sandbox::VolumeInfo>> list_volumes(std::string label_begins) override;
  awaitable<void> remove_volume(std::string id) override;

 private:
  static constexpr std::size_t kDiskThreads = 2;
  std::shared_ptr<NativeSandbox> connect(std::string id, std::string label, os::Fd control);
  void forget(const std::string& id);

  asio::any_io_executor executor_;
  std::string output_dir_;
  sandbox::OutputLimits output_;
  Milliseconds ahead_{0};
  KeeperClient keeper_;
  asio::thread_pool disk_{kDiskThreads};  // for reads and writes of tenants' files
  std::map<std::string, std::weak_ptr<NativeSandbox>> open_;
  std::unordered_set<std::string> resting_;  // whose output stays though they have ended
  sandbox::OnGone gone_;
  unsigned fail_at_ = 0;
  bool shared_ = false;
};

}  // namespace tb::native
