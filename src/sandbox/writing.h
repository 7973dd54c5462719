// SPDX-License-Identifier: Apache-2.0
// Writing files from outside within the limits, and edits of them: on any Files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sandbox/files.h"

namespace tb::sandbox {

// A limit of FileLimits: too_large, too_many or full.
class LimitError : public FileError {
 public:
  LimitError(FileProblem problem, const std::string& text, FileLimits limit, Usage usage,
             Bytes asked)
      : FileError(problem, text), limits(limit), used(usage), size(asked) {}
  FileLimits limits;
  Usage used;
  Bytes size;  // of the file
};

// A new file that is held to the limits. Dropped without commit(), nothing of it is left.
class LimitedFile {
 public:
  explicit LimitedFile(FileLimits limits) : limits_(limits) {}
  // `expected`: as many bytes as will come, if that is known.
  awaitable<void> begin(Files& files, Bytes expected);
  awaitable<void> write(std::string_view bytes);
  awaitable<Named> commit(std::string path, Naming naming);

 private:
  awaitable<void> store(std::string_view bytes);
  void check(Bytes size) const;
  LimitError full(const FileError& error) const;

  FileLimits limits_;
  Files* files_ = nullptr;
  std::unique_ptr<NewFile> file_;
  Usage used_;
  Bytes expected_;
  Bytes size_;
};

// Files above this are not edited.
constexpr Bytes kMaxEdited = 10_MiB;

struct Edit {
  std::string from;  // not empty; must be in the file once, unless:
  std::string to;
  bool all = false;
};

struct Edited {
  FileInfo info;
  std::uint64_t replaced = 0;
  std::vector<std::uint64_t> lines;  // where; the first hundred
};

// FileProblem::no_match or ambiguous.
class EditError : public FileError {
 public:
  EditError(FileProblem problem, const std::string& text, std::uint64_t count,
            std::vector<std::uint64_t> where)
      : FileError(problem, text), matches(count), lines(std::move(where)) {}
  std::uint64_t matches;
  std::vector<std::uint64_t> lines;  // the first hundred
};

// Replaces the file in one step, or leaves it as it is; its permissions stay. Edits of one path
// wait for each other. FileProblem::changed: a program of the sandbox wrote meanwhile.
awaitable<Edited> edit_file(Files& files, std::string path, Edit edit, FileLimits limits);

}  // namespace tb::sandbox
