// SPDX-License-Identifier: Apache-2.0
// A sandbox of this machine: the server's end of the socket to its PID 1.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <memory>
#include <string>

#include "box/sandbox.h"
#include "native/file_link.h"

namespace tb::native {

class NativeSandbox : public box::GuestSandbox {
 public:
  // How the keeper is asked what a sandbox takes.
  using Measure = std::function<awaitable<sandbox::Load>(std::string id)>;
  NativeSandbox(asio::any_io_executor executor, std::string id, std::string label, os::Fd control,
                Settings settings, asio::thread_pool& disk, Measure measure);

  // Begins to listen. Call once, right after make_shared.
  void open();

  sandbox::Files& files() override { return files_; }
  awaitable<sandbox::Load> load() override { return measure_(id()); }

 private:
  void listen();
  void on_readable();
  void tell(std::string message) override;
  void disconnect() override;
  bool connect(box::GuestProcess& process, const guest::Started& started,
               std::span<os::Fd> passed) override;
  bool pass_to_helper(os::Fd socket);
  void queue(std::string message, os::Fd file);
  void flush();

  asio::posix::stream_descriptor control_;
  struct Waiting {
    std::string message;
    os::Fd file;  // passed with it: the message itself when it is large, or a socket
  };
  std::deque<Waiting> queue_;  // what a busy PID 1 has not taken yet
  bool flushing_ = false;
  box::GuestFiles files_;
  Measure measure_;
};

}  // namespace tb::native
