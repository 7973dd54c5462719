// SPDX-License-Identifier: Apache-2.0
// Sandboxes of an E2B cloud, or of whoever speaks its protocol.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/async.h"
#include "box/records.h"
#include "e2b/api.h"
#include "e2b/sandbox.h"
#include "net/client.h"
#include "sandbox/sandbox.h"

namespace tb::e2b {

struct E2bSettings {
  ApiSettings api;
  std::string sandbox_template = "base";  // of who names none
  std::string authorities;                // PEM; empty: the system's
  std::string state_dir;                  // records and output are below it
  sandbox::OutputLimits output;
  Bytes spooled;  // of uploads that wait on disk, together
};

class E2bProvider : public sandbox::Provider {
 public:
  // Throws Error{invalid} when there are no certificates in `authorities`.
  E2bProvider(asio::any_io_executor executor, E2bSettings settings);

  // Begins to keep sandboxes alive.
  void open();
  // Stops talking; sandboxes go on.
  awaitable<void> close();
  // Why nothing can be made right now; empty: nothing is known.
  std::string problem() const { return api_.problem(); }

  awaitable<std::shared_ptr<sandbox::Sandbox>> create(sandbox::SandboxSpec spec) override;
  awaitable<std::vector<sandbox::Found>> list() override;
  awaitable<std::shared_ptr<sandbox::Sandbox>> adopt(sandbox::Found found) override;
  void assign(sandbox::Sandbox& sandbox, std::string label, Milliseconds idle) override;
  void renew(sandbox::Sandbox& sandbox, Milliseconds idle) override;
  awaitable<void> destroy(std::string id) override;
  void on_gone(sandbox::OnGone callback) override { gone_ = std::move(callback); }

 private:
  struct Known {
    std::shared_ptr<E2bSandbox> sandbox;
    std::string machine;
    Milliseconds idle{0};
    std::chrono::steady_clock::time_point told{};  // when E2B heard how long it lives
    std::unique_ptr<asio::steady_timer> timer;     // until it has been idle for too long
  };
  awaitable<std::shared_ptr<E2bSandbox>> connect(std::string id, const box::Record& record,
                                                 const Machine& machine, bool is_new);
  awaitable<std::shared_ptr<E2bSandbox>> reach(std::string id, box::Record record);
  awaitable<Machine> make(std::string from, const sandbox::SandboxSpec& spec);
  awaitable<void> keep_all_alive();
  void tell(const std::string& id);
  void watch(const std::string& id, Milliseconds idle, Milliseconds already);
  void expire(const std::string& id);
  void vanished(const std::string& id);
  void forget(const std::string& id);
  void shut(std::shared_ptr<E2bSandbox> sandbox);
  void remove_stray_output(const std::vector<sandbox::Found>& known) const;

  asio::any_io_executor executor_;
  E2bSettings settings_;
  std::string output_dir_;
  net::Client client_;
  Api api_;
  box::Records records_;
  Spools spools_;
  std::map<std::string, Known> known_;
  std::set<std::shared_ptr<E2bSandbox>> ending_;
  sandbox::OnGone gone_;
  TaskGroup tasks_;
};

}  // namespace tb::e2b
