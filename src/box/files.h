// SPDX-License-Identifier: Apache-2.0
// The server's side of file access: asks a helper in the sandbox for open files, then streams.
#pragma once

#include <functional>
#include <memory>

#include "box/helper.h"
#include "sandbox/files.h"

namespace tb::box {

class GuestFiles : public sandbox::Files {
 public:
  // Throws Error{unavailable} when the sandbox is gone.
  using Connect = std::function<std::unique_ptr<HelperLink>()>;
  explicit GuestFiles(Connect connect) : connect_(std::move(connect)) {}

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
  Connect connect_;
};

}  // namespace tb::box
