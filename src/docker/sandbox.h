// SPDX-License-Identifier: Apache-2.0
// A sandbox in a container: what is said to its PID 1 goes through a carrier, which the engine
// starts there for us, and starts again when it is lost.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "box/files.h"
#include "box/sandbox.h"
#include "docker/door.h"
#include "docker/engine.h"
#include "docker/files.h"
#include "docker/input.h"
#include "docker/link.h"
#include "guest/container_wire.h"

namespace tb::docker {

// Inside of every container.
constexpr const char* kGuestDir = "/.threadbox";
constexpr const char* kGuestPath = "/.threadbox/guest";
constexpr const char* kCarrierUser = "64999:64999";  // guest/container.h

class DockerSandbox : public box::GuestSandbox {
 public:
  DockerSandbox(asio::any_io_executor executor, std::string id, std::string label,
                Settings settings, Engine& engine, std::string container, std::string door_dir);

  // Call once, right after make_shared.
  void open() { load_earlier(); }
  // Talks to PID 1 until the container is gone or close() was called. Throws nothing.
  awaitable<void> serve();
  // Why it could not be talked to, the last time.
  const std::string& trouble() const { return trouble_; }
  // How long PID 1 waits for the next one of these.
  void lease(Milliseconds idle, Milliseconds grace);

  sandbox::Files& files() override { return files_; }
  awaitable<sandbox::Load> load() override;

 private:
  void tell(std::string message) override;
  void disconnect() override;
  std::shared_ptr<CarriedInput> make_input(std::uint32_t id);
  bool connect(box::GuestProcess& process, const guest::Started& started,
               std::span<os::Fd> passed) override;
  void send(guest::carrier::Kind kind, std::string_view payload);
  void on_frame(guest::carrier::Kind kind, std::string_view payload);
  void acknowledge();
  awaitable<bool> carry();
  awaitable<std::shared_ptr<Link>> find_carrier();
  void interrupted();
  void forget_starts();

  Engine& engine_;
  std::string container_;
  std::string door_dir_;
  std::shared_ptr<Link> link_;
  std::string waiting_;  // frames for the next carrier
  bool heard_ = false;   // anything from this one
  std::string trouble_;
  guest::Lease lease_;
  std::map<std::uint32_t, std::weak_ptr<CarriedInput>> inputs_;
  FileChannels channels_;
  box::GuestFiles files_;
};

}  // namespace tb::docker
