// SPDX-License-Identifier: Apache-2.0
// Sandboxes in containers of a Docker Engine.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/async.h"
#include "base/error.h"
#include "box/records.h"
#include "docker/engine.h"
#include "docker/sandbox.h"
#include "sandbox/sandbox.h"

namespace tb::docker {

struct DockerSettings {
  EngineSettings engine;
  std::string state_dir;  // records and output are below it
  sandbox::OutputLimits output;
  Milliseconds grace{600000};  // for a container without any server
  Milliseconds ahead{0};       // how long a shell that was started ahead waits for a command
};

class DockerProvider : public sandbox::Provider {
 public:
  DockerProvider(asio::any_io_executor executor, DockerSettings settings);

  // Throws Error{unavailable} that says what is wrong with the engine and what to do.
  awaitable<void> check_usable() { return engine_.check_usable(settings_.engine.image); }
  // The same as was found a moment ago: an engine that is gone need not be asked by everybody.
  // Empty: nothing was, or it is time to look again.
  std::string problem() const;
  Engine& engine() { return engine_; }
  // Ends all containers of this state directory; files of sessions stay.
  awaitable<void> stop_all();
  // Stops talking; containers go on. What is being made is made first: nobody could find it later.
  awaitable<void> close();

  awaitable<std::shared_ptr<sandbox::Sandbox>> create(sandbox::SandboxSpec spec) override;
  awaitable<std::vector<sandbox::Found>> list() override;
  awaitable<std::shared_ptr<sandbox::Sandbox>> adopt(sandbox::Found found) override;
  void assign(sandbox::Sandbox& sandbox, std::string label, Milliseconds idle) override;
  void renew(sandbox::Sandbox& sandbox, Milliseconds idle) override;
  awaitable<void> destroy(std::string id) override;
  void on_gone(sandbox::OnGone callback) override { gone_ = std::move(callback); }

 private:
  struct Known {
    std::weak_ptr<DockerSandbox> sandbox;
    Milliseconds idle{0};
    std::chrono::steady_clock::time_point told{};  // when the guest heard of it
    std::unique_ptr<asio::steady_timer> timer;     // until it has been idle for too long
  };
  std::string container_of(const std::string& id) const { return "threadbox-" + id; }
  std::string volume_of(const std::string& id) const { return "threadbox-" + id; }
  json::object labels_of(const std::string& id) const;
  json::object describe(const sandbox::SandboxSpec& spec) const;
  const std::string& image_of(const sandbox::SandboxSpec& spec) const;
  awaitable<std::shared_ptr<DockerSandbox>> make(sandbox::SandboxSpec spec);
  awaitable<void> ensure_usable(std::string image);
  awaitable<void> make_guest(std::string image);
  awaitable<void> own_workspace(std::string image, std::string volume);
  awaitable<std::string> make_filler(std::string image, std::string volume, const char* target);
  awaitable<std::string> make_container(std::string image, std::string name,
                                        json::object description);
  void found_trouble(const Error& error);
  awaitable<void> start(sandbox::SandboxSpec spec, bool is_new);
  awaitable<std::shared_ptr<DockerSandbox>> connect(std::string id, std::string label,
                                                    Milliseconds limit);
  awaitable<std::map<std::string, bool>> containers();
  awaitable<std::vector<std::string>> workspaces();
  awaitable<void> remove(std::string id, bool files);
  void watch(const std::string& id, Milliseconds idle, Milliseconds already);
  void expire(const std::string& id);
  void lost(const std::string& id);
  void forget(const std::string& id);
  void remove_stray_output(const std::vector<sandbox::Found>& known) const;

  asio::any_io_executor executor_;
  DockerSettings settings_;
  std::string output_dir_;
  std::string door_dir_;  // empty: the engine does not see it
  Engine engine_;
  box::Records records_;
  std::string guest_volume_;
  bool guest_there_ = false;
  std::set<std::string> images_;  // that were there
  std::string trouble_;
  std::chrono::steady_clock::time_point trouble_at_{};
  bool guest_making_ = false;
  Signal guest_changed_;
  std::map<std::string, Known> known_;
  sandbox::OnGone gone_;
  unsigned making_ = 0;
  Signal made_;
  TaskGroup tasks_;
};

}  // namespace tb::docker
