// SPDX-License-Identifier: Apache-2.0
// The server's side of file access: asks a helper in the sandbox for descriptors, then streams.
#pragma once

#include <functional>

#include "base/async.h"
#include "os/fd.h"
#include "sandbox/files.h"

namespace tb::native {

class NativeFiles : public sandbox::Files {
 public:
  // `pass` hands a socket to PID 1, which starts a helper that answers on it; false: it is gone.
  using Pass = std::function<bool(os::Fd socket)>;
  NativeFiles(asio::any_io_executor executor, asio::thread_pool& disk, Pass pass)
      : executor_(executor), disk_(disk), pass_(std::move(pass)) {}

  awaitable<std::unique_ptr<sandbox::OpenFile>> open(std::string path) override;
  awaitable<std::unique_ptr<sandbox::NewFile>> create() override;
  awaitable<sandbox::Listing> list(std::string path, std::size_t most) override;
  awaitable<sandbox::Usage> usage() override;

 private:
  class Link;
  class Reading;
  class Writing;
  std::unique_ptr<Link> connect();
  static awaitable<sandbox::Usage> usage_by(Link& link);

  asio::any_io_executor executor_;
  asio::thread_pool& disk_;
  Pass pass_;
};

}  // namespace tb::native
