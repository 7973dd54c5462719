// SPDX-License-Identifier: Apache-2.0
// Files of a sandbox: content goes through E2B's file routes, everything else is done by helpers in
// the sandbox.
#pragma once

#include <memory>
#include <string>

#include "base/spool.h"
#include "e2b/envd.h"
#include "e2b/helper.h"
#include "sandbox/files.h"

namespace tb::e2b {

class E2bFiles : public sandbox::Files {
 public:
  // Uploads wait in `spools` until they have their name.
  E2bFiles(std::shared_ptr<Envd> envd, Spools& spools) : envd_(std::move(envd)), spools_(spools) {}

  awaitable<std::unique_ptr<sandbox::OpenFile>> open(std::string path) override;
  awaitable<std::unique_ptr<sandbox::NewFile>> create() override;
  awaitable<sandbox::Listing> list(std::string path, std::size_t most) override;
  awaitable<sandbox::Usage> usage() override;
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
  awaitable<std::vector<sandbox::FileInfo>> entries(std::string path, bool recursive);

  std::shared_ptr<Envd> envd_;
  Spools& spools_;
};

// ---- file_helpers.cpp: what helpers are told, and what they answer ----
// A bash text that finds what it needs defined: fail, parents, info. Throws FileError.
awaitable<std::string> ask_files(Envd& envd, std::string script,
                                 std::vector<std::string> parameters);
std::string file_script(const std::string& script);
[[noreturn]] void refuse_file(const std::string& errors);
sandbox::FileInfo read_info(std::string_view line);
// Where a file waits in the sandbox for its name.
awaitable<std::string> put_spool(Envd& envd, Spool& spool, std::uint64_t size);

}  // namespace tb::e2b
