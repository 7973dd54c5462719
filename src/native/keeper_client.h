// SPDX-License-Identifier: Apache-2.0
// The server's side of the keeper's socket: requests by number, answers awaited.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/async.h"
#include "jail/wire.h"
#include "os/fd.h"
#include "sandbox/sandbox.h"

namespace tb::native {

class KeeperClient {
 public:
  // Connects to the keeper of this state directory; throws Error{unavailable} when there is none.
  KeeperClient(asio::any_io_executor executor, const std::string& state_dir);
  ~KeeperClient();

  awaitable<jail::Welcome> hello();
  // The socket to the new sandbox's PID 1.
  awaitable<os::Fd> create(jail::Create create);
  awaitable<os::Fd> attach(std::string id);
  // The same once who has it needs it no more.
  awaitable<os::Fd> join(std::string id);
  void release(const std::string& id);  // without an answer
  void tell(const jail::Label& label);  // without an answer
  void tell(const jail::Lease& lease);  // without an answer
  awaitable<void> destroy(std::string id, bool keep_files);
  awaitable<void> rest(std::string id);
  awaitable<std::vector<jail::Item>> list();
  awaitable<sandbox::Load> measure(std::string id);
  awaitable<void> make_volume(jail::MakeVolume volume);
  awaitable<void> remove_volume(std::string id);
  awaitable<std::vector<jail::VolumeItem>> list_volumes(std::string label_begins);
  awaitable<void> stop();

  // Sandboxes that ended by themselves; and the end of the keeper itself.
  void on_gone(sandbox::OnGone callback) { gone_ = std::move(callback); }
  // Another program waits for a sandbox that was passed to us.
  void on_wanted(std::function<void(const std::string& id)> callback) {
    wanted_ = std::move(callback);
  }
  // `in_order`: it was asked to stop.
  void on_lost(std::function<void(bool in_order)> callback) { lost_ = std::move(callback); }
  int native_handle() { return socket_.native_handle(); }
  // Cancels the reading and waits for its end.
  awaitable<void> close();

 private:
  struct Answer {
    bool done = false;
    jail::Message type{};
    std::string body;
    os::Fd fd;
    std::vector<jail::Item> items;
    std::vector<jail::VolumeItem> volumes;
    std::exception_ptr failure;
    std::unique_ptr<Signal> arrived;
  };
  awaitable<std::shared_ptr<Answer>> ask(jail::Message type, std::string body);
  void send(std::string packet);
  awaitable<void> read_loop();
  void receive(std::string_view packet, os::Fd fd);
  void fail_all(const std::string& why);

  asio::any_io_executor executor_;
  asio::posix::stream_descriptor socket_;
  std::uint32_t next_ = 1;
  std::map<std::uint32_t, std::shared_ptr<Answer>> waiting_;
  sandbox::OnGone gone_;
  std::function<void(const std::string&)> wanted_;
  std::function<void(bool)> lost_;
  bool broken_ = false;
  bool stopping_ = false;
  TaskGroup tasks_;
};

}  // namespace tb::native
