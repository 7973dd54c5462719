// SPDX-License-Identifier: Apache-2.0
#include "e2b/files.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>

#include "match/glob.h"
#include "match/regex.h"

namespace tb::e2b {
namespace {

using sandbox::FileError;
using sandbox::FileInfo;
using sandbox::FileProblem;
using sandbox::FileType;
using sandbox::Named;

constexpr std::size_t kMostSearched = 12'000'000;  // bytes of lines
constexpr std::size_t kLine = 2000;                // of a found line that is told

constexpr const char* kOpen = R"(
parents "$1"; [[ -L ./$1 ]] && fail link
[[ -e ./$1 ]] || fail not_found
[[ -f ./$1 ]] || fail not_regular
[[ -r ./$1 ]] || fail denied
info "$1"
)";
// $1 the file, $2 its name, $3 exclusive, $4 append, $5 mode, $6 version, $7 most bytes
constexpr const char* kCommit = R"(
trap 'rm -f -- "$1"' EXIT
parents "$2" make; at=./$2 created=
[[ -L $at ]] && fail link
if [[ -e $at ]]; then
  [[ -f $at ]] || fail not_regular
  [[ $3 ]] && fail exists
  [[ $6 && $(stat -c "%i-%.9Z-%s" -- "$at") != "$6" ]] && fail changed
else
  [[ $6 ]] && fail changed
  created=1
fi
if [[ $4 && ! $created ]]; then
  (( $(stat -c %s -- "$at") + $(stat -c %s -- "$1") > $7 )) && fail too_large
  cat -- "$1" >> "$at" || fail full
  [[ $5 ]] && chmod "$5" -- "$at"
else
  if [[ $5 ]]; then chmod "$5" -- "$1"
  elif [[ $created ]]; then chmod 644 -- "$1"
  else chmod --reference="$at" -- "$1"; fi
  mv -fT -- "$1" "$at" || fail denied
fi
printf '%s\n' "${created:-0}"; info "$2"
)";
constexpr const char* kEntries = R"(
[[ $1 ]] && { parents "$1"; [[ -L ./$1 ]] && fail link; [[ -e ./$1 ]] || fail not_found; }
[[ -d ./$1 ]] || fail blocked
cd -- "./$1" || fail denied
find . -mindepth 1 $2 -printf '%y %m %s %T@ %P\0' 2>/dev/null; true
)";
constexpr const char* kMakeDirectory = R"(
parents "$1" make
[[ -L ./$1 ]] && fail link
created=0
if [[ ! -e ./$1 ]]; then mkdir -- "./$1" || fail denied; created=1; fi
[[ -d ./$1 ]] || fail exists
[[ $2 && $created = 1 ]] && { chmod "$2" -- "./$1" || fail denied; }
printf '%s\n' $created; info "$1"
)";
constexpr const char* kMove = R"(
parents "$1"; [[ -e ./$1 || -L ./$1 ]] || fail not_found
[[ $2 == "$1"/* ]] && fail into_itself
parents "$2" make
if [[ -e ./$2 || -L ./$2 ]]; then
  [[ $3 ]] || fail exists
  [[ -d ./$2 && ! -L ./$2 ]] && { rmdir -- "./$2" 2>/dev/null || fail not_empty; }
fi
mv -fT -- "./$1" "./$2" || fail denied
info "$2"
)";
constexpr const char* kRemove = R"(
parents "$1"; [[ -e ./$1 || -L ./$1 ]] || fail not_found
if [[ -d ./$1 && ! -L ./$1 && ! $2 ]]; then
  rmdir -- "./$1" 2>/dev/null && exit 0
  [[ $(find "./$1" -mindepth 1 -print -quit) ]] && fail not_empty
  fail denied
fi
rm -rf -- "./$1" || fail denied
)";
constexpr const char* kSearch = R"(
[[ $1 ]] && { parents "$1"; [[ -L ./$1 ]] && fail link; [[ -e ./$1 ]] || fail not_found; }
grep -rInHZ $2 -e "$3" -- "./$1" 2>/dev/null | head -c "$4"; true
)";

std::string octal(unsigned mode) {
  char text[16];
  const auto end = std::to_chars(text, text + sizeof text, mode & 07777, 8).ptr;
  return {text, end};
}

class Reading : public sandbox::OpenFile {
 public:
  Reading(std::shared_ptr<Envd> envd, std::string path, FileInfo info)
      : envd_(std::move(envd)), path_(std::move(path)), info_(std::move(info)) {}

  const FileInfo& info() const override { return info_; }

  // From one answer for as long as it is read in order.
  awaitable<std::size_t> read(std::uint64_t offset, std::span<char> out) override {
    if (offset >= info_.size.count) co_return 0;
    if (!answer_ || offset != at_) {
      answer_ = co_await envd_->read_file("/workspace/" + path_, offset);
      at_ = offset;
      rest_.clear();
    }
    if (rest_.empty()) rest_ = co_await answer_->read();
    const std::size_t size = std::min(out.size(), rest_.size());
    std::copy_n(rest_.data(), size, out.data());
    rest_.erase(0, size);
    at_ += size;
    co_return size;
  }

 private:
  std::shared_ptr<Envd> envd_;
  std::string path_;
  FileInfo info_;
  std::unique_ptr<net::Answer> answer_;
  std::uint64_t at_ = 0;
  std::string rest_;
};

class Writing : public sandbox::NewFile {
 public:
  Writing(std::shared_ptr<Envd> envd, Spools& spools, sandbox::Usage used)
      : envd_(std::move(envd)), spool_(spools), used_(used) {}

  const sandbox::Usage& used() const override { return used_; }

  awaitable<void> write(std::string_view bytes) override {
    const bool kept = co_await spool_.add(bytes);
    if (!kept) throw Error{Code::exhausted, "Too many uploads wait on this server; try again"};
    size_ += bytes.size();
  }

  awaitable<FileInfo> commit(std::string path) override {
    sandbox::Naming usual;
    const Named named = co_await commit_as(std::move(path), std::move(usual));
    co_return named.info;
  }

  awaitable<Named> commit_as(std::string path, sandbox::Naming naming) override {
    const std::string file = co_await put_spool(*envd_, spool_, size_);
    const std::uint64_t most = std::min<std::uint64_t>(naming.most.count, INT64_MAX);
    std::vector<std::string> parameters;
    parameters.push_back(file);
    parameters.push_back(std::move(path));
    parameters.push_back(naming.exclusive ? "1" : "");
    parameters.push_back(naming.append ? "1" : "");
    parameters.push_back(naming.mode ? octal(*naming.mode) : "");
    parameters.push_back(std::move(naming.replaces));
    parameters.push_back(std::to_string(most));
    const std::string told = co_await ask_files(*envd_, kCommit, std::move(parameters));
    const std::size_t line = told.find('\n');
    Named named;
    named.created = told.starts_with("1");
    named.info = read_info(std::string_view{told}.substr(line + 1));
    co_return named;
  }

 private:
  std::shared_ptr<Envd> envd_;
  Spool spool_;
  sandbox::Usage used_;
  std::uint64_t size_ = 0;
};

FileType type_of(char letter) {
  if (letter == 'f') return FileType::file;
  if (letter == 'd') return FileType::directory;
  return letter == 'l' ? FileType::link : FileType::other;
}

unsigned bits_of(FileType type) {
  if (type == FileType::file) return S_IFREG;
  if (type == FileType::directory) return S_IFDIR;
  return type == FileType::link ? S_IFLNK : 0;
}

// "f 644 12 1700000000.0123456780 path"
FileInfo read_entry(std::string_view line) {
  FileInfo info;
  const auto word = [&line] {
    const std::size_t at = std::min(line.find(' '), line.size());
    const std::string_view found = line.substr(0, at);
    line.remove_prefix(std::min(at + 1, line.size()));
    return found;
  };
  const std::string_view type = word();
  const std::string_view mode = word();
  const std::string_view size = word();
  const std::string_view time = word();
  info.type = type_of(type.empty() ? '?' : type.front());
  std::from_chars(mode.data(), mode.data() + mode.size(), info.mode, 8);
  info.mode |= bits_of(info.type);
  std::from_chars(size.data(), size.data() + size.size(), info.size.count);
  std::int64_t seconds = 0;
  std::from_chars(time.data(), time.data() + time.size(), seconds);
  info.modified = std::chrono::system_clock::time_point{std::chrono::seconds{seconds}};
  info.name = line;
  return info;
}

// In the order of paths, part by part: a slash comes before every other byte.
bool path_less(const std::string& a, const std::string& b) {
  const auto rank = [](char c) { return c == '/' ? -1 : static_cast<unsigned char>(c); };
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                      [&](char x, char y) { return rank(x) < rank(y); });
}

std::string below(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

match::Glob compile_glob(const std::string& pattern) {
  match::Glob glob;
  std::string error;
  if (!match::Glob::compile(pattern, glob, error)) {
    throw FileError{FileProblem::bad_pattern, "The pattern is wrong: " + error};
  }
  return glob;
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

awaitable<std::unique_ptr<sandbox::OpenFile>> E2bFiles::open(std::string path) {
  std::vector<std::string> parameters{path};
  const std::string told = co_await ask_files(*envd_, kOpen, std::move(parameters));
  co_return std::make_unique<Reading>(envd_, std::move(path), read_info(told));
}

awaitable<std::unique_ptr<sandbox::NewFile>> E2bFiles::create() {
  const sandbox::Usage used = co_await usage();
  co_return std::make_unique<Writing>(envd_, spools_, used);
}

awaitable<std::vector<FileInfo>> E2bFiles::entries(std::string path, bool recursive) {
  std::vector<std::string> parameters{std::move(path), recursive ? "" : "-maxdepth 1"};
  const std::string told = co_await ask_files(*envd_, kEntries, std::move(parameters));
  std::vector<FileInfo> found;
  std::string_view rest = told;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    found.push_back(read_entry(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  co_return found;
}

awaitable<sandbox::Listing> E2bFiles::list(std::string path, std::size_t most) {
  sandbox::Listing listing;
  listing.files = co_await entries(std::move(path), false);
  listing.complete = listing.files.size() <= most;
  if (!listing.complete) listing.files.resize(most);
  co_return listing;
}

awaitable<sandbox::Usage> E2bFiles::usage() {
  sandbox::Usage usage;
  const std::vector<FileInfo> all = co_await entries("", true);
  for (const FileInfo& file : all) {
    if (file.type != FileType::file) continue;
    ++usage.files;
    usage.bytes = usage.bytes + file.size;
  }
  co_return usage;
}

awaitable<FileInfo> E2bFiles::stat(std::string path) {
  std::string script =
      "[[ $1 ]] && parents \"$1\"; [[ -e ./$1 || -L ./$1 ]] || fail not_found; info \"$1\"";
  std::vector<std::string> parameters{std::move(path)};
  const std::string told = co_await ask_files(*envd_, std::move(script), std::move(parameters));
  co_return read_info(told);
}

awaitable<sandbox::Listing> E2bFiles::walk(sandbox::WalkSpec spec) {
  std::optional<match::Glob> glob;
  if (!spec.pattern.empty()) glob = compile_glob(spec.pattern);
  std::vector<FileInfo> found = co_await entries(spec.path, spec.recursive);
  std::sort(found.begin(), found.end(),
            [](const FileInfo& a, const FileInfo& b) { return path_less(a.name, b.name); });
  sandbox::Listing listing;
  for (FileInfo& file : found) {
    if (glob && !glob->matches(file.name)) continue;
    if (!spec.after.empty() && !path_less(spec.after, file.name)) continue;
    listing.complete = listing.files.size() < spec.most;
    if (!listing.complete) break;
    file.name = below(spec.path, file.name);
    listing.files.push_back(std::move(file));
  }
  co_return listing;
}

// Lines come as PATH NUL NUMBER : TEXT.
awaitable<sandbox::FoundLines> E2bFiles::search(sandbox::SearchSpec spec) {
  match::Regex regex;
  std::string error;
  const match::RegexOptions options{spec.ignore_case, !spec.regex};
  if (!match::Regex::compile(spec.text, options, regex, error)) {
    throw FileError{FileProblem::bad_pattern, "The pattern is wrong: " + error};
  }
  std::optional<match::Glob> glob;
  if (!spec.glob.empty()) glob = compile_glob(spec.glob);
  // An expression is matched here, where every provider reads it in the same way.
  std::string flags = spec.regex ? "" : (spec.ignore_case ? "-iF" : "-F");
  std::vector<std::string> parameters{spec.path, std::move(flags), spec.regex ? "" : spec.text,
                                      std::to_string(kMostSearched)};
  const std::string told = co_await ask_files(*envd_, kSearch, std::move(parameters));
  sandbox::FoundLines found;
  found.complete = told.size() < kMostSearched;
  std::string last;
  std::string_view rest = told;
  while (!rest.empty()) {
    const std::string_view row = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(row.size() + 1, rest.size()));
    const std::size_t nul = row.find('\0');
    const std::size_t colon = row.find(':', nul == row.npos ? row.size() : nul);
    if (colon == row.npos || !row.starts_with("./")) continue;
    sandbox::FoundLine line;
    line.path = row.substr(2, nul - 2);
    std::string_view text = row.substr(colon + 1);
    if (text.ends_with('\r')) text.remove_suffix(1);
    std::from_chars(row.data() + nul + 1, row.data() + colon, line.line);
    if (line.path != last) ++found.files;
    last = line.path;
    std::string_view relative = std::string_view{line.path}.substr(
        std::min(line.path.size(), spec.path.empty() ? 0 : spec.path.size() + 1));
    if (glob && !glob->matches(glob->has_directories() ? relative : base_name(line.path))) continue;
    if (!regex.matches(text)) continue;
    line.text = text.substr(0, kLine);
    found.lines.push_back(std::move(line));
  }
  std::stable_sort(found.lines.begin(), found.lines.end(),
                   [](const auto& a, const auto& b) { return path_less(a.path, b.path); });
  if (found.lines.size() > spec.most) {
    found.lines.resize(spec.most);
    found.complete = false;
  }
  co_return found;
}

awaitable<Named> E2bFiles::make_directory(std::string path, std::optional<unsigned> mode) {
  std::vector<std::string> parameters{std::move(path), mode ? octal(*mode) : ""};
  const std::string told = co_await ask_files(*envd_, kMakeDirectory, std::move(parameters));
  Named named;
  named.created = told.starts_with("1");
  named.info = read_info(std::string_view{told}.substr(std::min<std::size_t>(2, told.size())));
  co_return named;
}

awaitable<FileInfo> E2bFiles::move(std::string from, std::string to, bool replaces) {
  std::vector<std::string> parameters{std::move(from), std::move(to), replaces ? "1" : ""};
  const std::string told = co_await ask_files(*envd_, kMove, std::move(parameters));
  co_return read_info(told);
}

awaitable<void> E2bFiles::remove(std::string path, bool recursive) {
  std::vector<std::string> parameters{std::move(path), recursive ? "1" : ""};
  co_await ask_files(*envd_, kRemove, std::move(parameters));
}

}  // namespace tb::e2b
