// SPDX-License-Identifier: Apache-2.0
// The files of a sandbox, seen from outside: always below its workspace, always as the tenant.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
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
  // Of a file that was opened or asked for by its name: another one when its bytes may be others.
  std::string version;
  std::string target = {};  // of a link that was asked for by its name
};

// What is taken from outside; the kernel holds the sandbox itself to its limit of bytes.
struct FileLimits {
  Bytes file = 100_MiB;
  std::uint64_t count = 1000;
  Bytes workspace = 500_MiB;
};

// Why a file can't be had, beyond what Error's codes say.
enum class FileProblem {
  not_found,
  not_regular,
  outside,
  link,
  blocked,
  denied,
  full,  // the disk, or the limit of a workspace's bytes
  bad_name,
  exists,
  not_empty,
  too_large,  // one file
  too_many,   // files
  bad_pattern,
  bad_archive,
  changed,    // since it was read
  no_match,   // of an edit
  ambiguous,  // an edit
};

constexpr Code code_of(FileProblem problem) {
  switch (problem) {
    case FileProblem::not_found: return Code::not_found;
    case FileProblem::exists:
    case FileProblem::not_empty:
    case FileProblem::changed:
    case FileProblem::no_match:
    case FileProblem::ambiguous: return Code::conflict;
    default: return Code::invalid;
  }
}

class FileError : public Error {
 public:
  FileError(FileProblem problem, const std::string& text)
      : Error(code_of(problem), text), problem_(problem) {}
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
  // Moves bytes from `offset` on, at most `most`, to a socket that does not block, without reading
  // them here: how many, 0 when the socket takes none now. Empty: it is not possible, or not any
  // more; read() tells why.
  virtual awaitable<std::optional<std::size_t>> send(int /*socket*/, std::uint64_t /*offset*/,
                                                     std::uint64_t /*most*/) {
    co_return std::nullopt;
  }
};

struct Usage {
  std::uint64_t files = 0;  // regular ones, at any depth
  Bytes bytes;
};

// How a file gets its name.
struct Naming {
  bool exclusive = false;        // nothing is replaced: FileProblem::exists
  bool append = false;           // its bytes go to the end of a file that has the name
  std::optional<unsigned> mode;  // permissions; else those of the file that it replaces, or 0644
  std::string replaces;          // only a file of this version is replaced: FileProblem::changed
  Bytes most{UINT64_MAX};        // in a file that is appended to: FileProblem::too_large
};

struct Named {
  FileInfo info;
  bool created = false;  // nothing had the name
};

// A file that has no name yet. Dropped without commit(), nothing of it is left.
class NewFile {
 public:
  virtual ~NewFile() = default;
  virtual const Usage& used() const = 0;  // by all the others, when it was made
  virtual awaitable<void> write(std::string_view bytes) = 0;
  // Gives it its name, in place of a regular file that had it; directories are made.
  virtual awaitable<FileInfo> commit(std::string path) = 0;
  virtual awaitable<Named> commit_as(std::string path, Naming naming) = 0;
  // Gives it up, and waits until nobody writes to it any more: who is told that there was no room
  // for it finds the room free. Nothing else may follow.
  virtual awaitable<void> drop() { co_return; }
};

// A tar, plain or compressed by gzip, that is made while it is read. Other kinds than files,
// directories and links, and what the tenant itself can't read, is left out.
class ArchiveReader {
 public:
  virtual ~ArchiveReader() = default;
  // More of it; 0 at its end. Throws when the rest can't be had.
  virtual awaitable<std::size_t> read(std::span<char> out) = 0;
};

struct Unpacked {
  std::uint64_t files = 0;
  Bytes bytes;
};

// A tar, plain or compressed by gzip, that is unpacked while it is written. What was unpacked stays
// when the rest is refused.
class ArchiveWriter {
 public:
  virtual ~ArchiveWriter() = default;
  // False: no more is wanted; finish() says why.
  virtual awaitable<bool> write(std::string_view bytes) = 0;
  virtual awaitable<Unpacked> finish() = 0;
};

struct WalkSpec {
  std::string path;        // empty: the workspace
  bool recursive = false;  // else only the directory itself
  std::string pattern;     // only these, relative to `path` (match/glob.h); empty: all
  std::string after;       // only what comes after this path, which is relative to `path`
  std::size_t most = 1000;
};

struct SearchSpec {
  std::string path;  // a directory, or one file
  std::string text;
  bool regex = false;  // match/regex.h; else the text itself
  bool ignore_case = false;
  std::string glob;  // of names, or with a slash of paths relative to `path`; empty: all
  std::size_t most = 1000;
};

struct FoundLine {
  std::string path;
  std::uint64_t line = 0;  // from 1
  std::string text;        // its beginning, when it is long
};

struct FoundLines {
  std::vector<FoundLine> lines;  // in the order of paths
  std::uint64_t files = 0;       // that were looked at
  bool complete = true;
};

struct Listing {
  std::vector<FileInfo> files;
  bool complete = true;  // else there were more than asked for
};

// Who replaces a file by its old content waits for those who do the same: sandbox/writing.h.
class EditTurns;

// Paths are relative to the workspace, without . and .. parts. All throw FileError, and Error
// {unavailable} when the sandbox can't answer.
class Files {
 public:
  virtual ~Files() = default;
  std::shared_ptr<EditTurns> edit_turns;  // made by the first edit
  virtual awaitable<std::unique_ptr<OpenFile>> open(std::string path) = 0;
  virtual awaitable<std::unique_ptr<NewFile>> create() = 0;
  // One directory, in no order; empty: the workspace itself.
  virtual awaitable<Listing> list(std::string path, std::size_t most) = 0;
  virtual awaitable<Usage> usage() = 0;

  // A link is told of, not followed; empty: the workspace.
  virtual awaitable<FileInfo> stat(std::string path) = 0;
  // In the order of paths, part by part; names are paths, relative to the workspace.
  virtual awaitable<Listing> walk(WalkSpec spec) = 0;
  virtual awaitable<FoundLines> search(SearchSpec spec) = 0;
  // With its parents; one that is there is fine.
  virtual awaitable<Named> make_directory(std::string path, std::optional<unsigned> mode) = 0;
  // Directories of the new path are made.
  virtual awaitable<FileInfo> move(std::string from, std::string to, bool replaces) = 0;
  virtual awaitable<void> remove(std::string path, bool recursive) = 0;
  // One path: the names in the tar are relative to it; several: to the workspace.
  virtual awaitable<std::unique_ptr<ArchiveReader>> archive(std::vector<std::string> paths,
                                                            bool gzip, Bytes most) = 0;
  virtual awaitable<std::unique_ptr<ArchiveWriter>> unpack(std::string path, FileLimits limits) = 0;
};

}  // namespace tb::sandbox
