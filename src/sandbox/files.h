// SPDX-License-Identifier: Apache-2.0
// The files of a sandbox, seen from outside: always below its workspace, always as the tenant.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/units.h"

namespace tb::sandbox {

using boost::asio::awaitable;

enum class FileType { file, directory, link, other };

struct FileInfo {
  std::string name;  // bytes as the file system has them
  FileType type = FileType::file;
  unsigned mode = 0;  // as st_mode
  Bytes size;
  std::chrono::system_clock::time_point modified;
  std::string version;  // of a file that was opened: another one when its bytes may be others
};

// Why a file can't be had, beyond what Error's codes say.
enum class FileProblem { not_found, not_regular, outside, link, blocked, denied, full, bad_name };

class FileError : public Error {
 public:
  FileError(FileProblem problem, const std::string& text)
      : Error(problem == FileProblem::not_found ? Code::not_found : Code::invalid, text),
        problem_(problem) {}
  FileProblem problem() const { return problem_; }

 private:
  FileProblem problem_;
};

// A regular file, open for reading: its content stays even if its name is given to another.
class OpenFile {
 public:
  virtual ~OpenFile() = default;
  virtual const FileInfo& info() const = 0;  // as it was when it was opened
  // Bytes from `offset` on; 0 at the end.
  virtual awaitable<std::size_t> read(std::uint64_t offset, std::span<char> out) = 0;
};

struct Usage {
  std::uint64_t files = 0;  // regular ones, at any depth
  Bytes bytes;
};

// A file that has no name yet. Dropped without commit(), nothing of it is left.
class NewFile {
 public:
  virtual ~NewFile() = default;
  virtual const Usage& used() const = 0;  // by all the others, when it was made
  virtual awaitable<void> write(std::string_view bytes) = 0;
  // Gives it its name, in place of a regular file that had it; directories are made.
  virtual awaitable<FileInfo> commit(std::string path) = 0;
};

struct Listing {
  std::vector<FileInfo> files;
  bool complete = true;  // else there were more than asked for
};

// Paths are relative to the workspace, without . and .. parts. All throw FileError, and Error
// {unavailable} when the sandbox can't answer.
class Files {
 public:
  virtual ~Files() = default;
  virtual awaitable<std::unique_ptr<OpenFile>> open(std::string path) = 0;
  virtual awaitable<std::unique_ptr<NewFile>> create() = 0;
  // One directory, in no order; empty: the workspace itself.
  virtual awaitable<Listing> list(std::string path, std::size_t most) = 0;
  virtual awaitable<Usage> usage() = 0;
};

}  // namespace tb::sandbox
