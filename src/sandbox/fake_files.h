// SPDX-License-Identifier: Apache-2.0
// For tests: files in memory.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "match/glob.h"
#include "match/regex.h"
#include "sandbox/files.h"

namespace tb::sandbox {

// Files in a map; directories are what their names say.
class FakeFiles : public Files {
 public:
  std::map<std::string, std::string> content;
  std::optional<FileProblem> refuse;  // what every call says

  class Open : public OpenFile {
   public:
    Open(std::string name, std::string text) : text_(std::move(text)) {
      info_.name = std::move(name);
      info_.mode = 0100644;
      info_.size = Bytes{text_.size()};
    }
    void set_version(std::string version) { info_.version = std::move(version); }
    const FileInfo& info() const override { return info_; }
    awaitable<std::size_t> read(std::uint64_t offset, std::span<char> out) override {
      if (offset >= text_.size()) co_return 0;
      co_return text_.copy(out.data(), out.size(), offset);
    }

   private:
    std::string text_;
    FileInfo info_;
  };
  class New : public NewFile {
   public:
    New(FakeFiles& files, Usage used) : files_(files), used_(used) {}
    const Usage& used() const override { return used_; }
    awaitable<void> write(std::string_view bytes) override {
      text_ += bytes;
      co_return;
    }
    awaitable<FileInfo> commit(std::string path) override {
      files_.check();
      FileInfo info;
      info.name = path;
      info.size = Bytes{text_.size()};
      files_.content[path] = std::move(text_);
      co_return info;
    }

    awaitable<Named> commit_as(std::string path, Naming naming) override {
      files_.check();
      const auto there = files_.content.find(path);
      const bool replaces = there != files_.content.end();
      if (replaces && naming.exclusive) throw FileError{FileProblem::exists, "it exists"};
      if (!naming.replaces.empty() && naming.replaces != files_.version(path)) {
        throw FileError{FileProblem::changed, "it was changed"};
      }
      if (replaces && naming.append) text_.insert(0, there->second);
      if (naming.append && Bytes{text_.size()} > naming.most) {
        throw FileError{FileProblem::too_large, "it is too large"};
      }
      const FileInfo info = co_await commit(path);
      co_return Named{info, !replaces};
    }

   private:
    FakeFiles& files_;
    Usage used_;
    std::string text_;
  };

  void check() const {
    if (refuse) throw FileError{*refuse, "refused"};
  }
  awaitable<std::unique_ptr<OpenFile>> open(std::string path) override {
    check();
    const auto found = content.find(path);
    if (found == content.end()) throw FileError{FileProblem::not_found, "no such file"};
    auto opened = std::make_unique<Open>(path, found->second);
    opened->set_version(version(path));
    co_return opened;
  }
  awaitable<std::unique_ptr<NewFile>> create() override {
    const Usage used = co_await usage();
    co_return std::make_unique<New>(*this, used);
  }
  awaitable<Listing> list(std::string, std::size_t most) override {
    check();
    Listing listing;
    for (const auto& [name, text] : content) {
      if (listing.files.size() == most) listing.complete = false;
      if (!listing.complete) break;
      listing.files.push_back({name, FileType::file, 0100644, Bytes{text.size()}, {}, {}});
    }
    co_return listing;
  }
  awaitable<Usage> usage() override {
    Usage usage;
    for (const auto& [name, text] : content) {
      ++usage.files;
      usage.bytes = usage.bytes + Bytes{text.size()};
    }
    co_return usage;
  }

  // Another one for other bytes.
  std::string version(const std::string& path) const {
    const auto found = content.find(path);
    return found == content.end() ? "" : std::to_string(std::hash<std::string>{}(found->second));
  }
  awaitable<FileInfo> stat(std::string path) override {
    const std::unique_ptr<OpenFile> file = co_await open(path);
    co_return file->info();
  }
  awaitable<Listing> walk(WalkSpec spec) override {
    check();
    Listing listing;
    const std::string prefix = spec.path.empty() ? "" : spec.path + "/";
    match::Glob glob;
    std::string mistake;
    if (!spec.pattern.empty() && !match::Glob::compile(spec.pattern, glob, mistake)) {
      throw FileError{FileProblem::bad_pattern, mistake};
    }
    for (const auto& [name, text] : content) {
      if (!name.starts_with(prefix)) continue;
      const std::string below = name.substr(prefix.size());
      if (!spec.recursive && below.find('/') != std::string::npos) continue;
      if (!spec.pattern.empty() && !glob.matches(below)) continue;
      if (!spec.after.empty() && below <= spec.after) continue;
      if (listing.files.size() == spec.most) listing.complete = false;
      if (!listing.complete) break;
      listing.files.push_back({name, FileType::file, 0100644, Bytes{text.size()}, {}, {}});
    }
    co_return listing;
  }
  awaitable<FoundLines> search(SearchSpec spec) override {
    check();
    FoundLines found;
    match::Regex regex;
    std::string mistake;
    const match::RegexOptions options{spec.ignore_case, !spec.regex};
    if (!match::Regex::compile(spec.text, options, regex, mistake)) {
      throw FileError{FileProblem::bad_pattern, mistake};
    }
    for (const auto& [name, text] : content) {
      ++found.files;
      std::uint64_t number = 0;
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        const std::string line = text.substr(at, end - at);
        at = end + 1;
        ++number;
        if (!regex.matches(line)) continue;
        if (found.lines.size() == spec.most) {
          found.complete = false;
          co_return found;
        }
        found.lines.push_back({name, number, line});
      }
    }
    co_return found;
  }
  awaitable<Named> make_directory(std::string path, std::optional<unsigned> mode) override {
    check();
    if (content.contains(path)) throw FileError{FileProblem::exists, "it exists"};
    Named named;
    named.info.name = path;
    named.info.type = FileType::directory;
    named.info.mode = 040000 | mode.value_or(0755);
    named.created = true;
    co_return named;
  }
  awaitable<FileInfo> move(std::string from, std::string to, bool replaces) override {
    check();
    if (!content.contains(from)) throw FileError{FileProblem::not_found, "no such file"};
    if (content.contains(to) && !replaces) throw FileError{FileProblem::exists, "it exists"};
    std::string text = std::move(content[from]);
    content.erase(from);
    content[to] = std::move(text);
    co_return co_await stat(to);
  }
  awaitable<void> remove(std::string path, bool) override {
    check();
    if (content.erase(path) == 0) throw FileError{FileProblem::not_found, "no such file"};
    co_return;
  }

  // Archives are bytes that come and go as they are.
  std::string archived;
  class Packed : public ArchiveReader {
   public:
    explicit Packed(std::string bytes) : bytes_(std::move(bytes)) {}
    awaitable<std::size_t> read(std::span<char> out) override {
      const std::size_t size = bytes_.copy(out.data(), out.size(), at_);
      at_ += size;
      co_return size;
    }

   private:
    std::string bytes_;
    std::size_t at_ = 0;
  };
  class Unpacking : public ArchiveWriter {
   public:
    explicit Unpacking(FakeFiles& files) : files_(files) { files_.archived.clear(); }
    awaitable<bool> write(std::string_view bytes) override {
      files_.archived += bytes;
      co_return true;
    }
    awaitable<Unpacked> finish() override { co_return Unpacked{1, Bytes{files_.archived.size()}}; }

   private:
    FakeFiles& files_;
  };
  awaitable<std::unique_ptr<ArchiveReader>> archive(std::vector<std::string>, bool,
                                                    Bytes) override {
    check();
    co_return std::make_unique<Packed>(archived);
  }
  awaitable<std::unique_ptr<ArchiveWriter>> unpack(std::string, FileLimits) override {
    check();
    co_return std::make_unique<Unpacking>(*this);
  }
};

}  // namespace tb::sandbox
