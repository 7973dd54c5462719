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
  // ---- operations.cpp ----
  awaitable<sandbox::FileInfo> stat(std::string path) override;
  awaitable<sandbox::Listing> walk(sandbox::WalkSpec spec) override;
  awaitable<sandbox::FoundLines> search(sandbox::SearchSpec spec) override;
  awaitable<sandbox::Named> make_directory(std::string path, std::optional<unsigned> mode) override;
  awaitable<sandbox::FileInfo> move(std::string from, std::string to, bool replaces) override;
  awaitable<void> remove(std::string path, bool recursive) override;
  // ---- archives.cpp ----
  awaitable<std::unique_ptr<sandbox::ArchiveReader>> archive(std::vector<std::string> paths,
                                                             bool gzip, Bytes most) override;
  awaitable<std::unique_ptr<sandbox::ArchiveWriter>> unpack(std::string path,
                                                            sandbox::FileLimits limits) override;

 private:
  class Link;
  class Reading;
  class Writing;
  os::Fd dial();  // our end of a new helper's socket
  std::unique_ptr<Link> connect();
  static awaitable<sandbox::Usage> usage_by(Link& link);

  asio::any_io_executor executor_;
  asio::thread_pool& disk_;
  Pass pass_;
};

}  // namespace tb::native
