// SPDX-License-Identifier: Apache-2.0
// Tars of a sandbox's files, made and unpacked by its own tar.
#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "e2b/files.h"

namespace tb::e2b {
namespace {

using sandbox::FileError;
using sandbox::FileProblem;

constexpr std::size_t kMaxErrors = 4096;
constexpr unsigned kMaxEmpty = 1000;  // events in a row that bring nothing of the archive

// $1: z or nothing; then the paths. What can't be read is left out.
constexpr const char* kPack = R"(
z=$1; shift
for path; do [[ $path ]] && { parents "$path"; [[ -L ./$path ]] && fail link; }
  [[ -e ./$path ]] || fail not_found; done
if (( $# == 1 )); then
  if [[ -d ./$1 ]]; then cd -- "./$1" || fail denied; set --
  else [[ $1 == */* ]] && { cd -- "./${1%/*}" || fail denied; }; set -- "${1##*/}"; fi
fi
kinds=( '(' -type f -o -type d -o -type l ')' -printf )
if (( $# == 0 )); then find . -mindepth 1 "${kinds[@]}" '%P\0'
else for path; do find "./$path" "${kinds[@]}" '%p\0'; done; fi 2>/dev/null |
  sed -z 's,^\./,,' | tar -c${z}f - --no-recursion --null --verbatim-files-from -T - \
    --ignore-failed-read 2>/dev/null
code=$?; (( code < 2 )) || exit 1
)";
// $1: the file; its list as tar tells it. A name that begins at the root would lose that silently.
constexpr const char* kLook = R"(
LC_ALL=C tar -Ptf "$1" 2>/dev/null | grep -q ^/ && { rm -f -- "$1"; fail bad_archive; }
LC_ALL=C tar -tvf "$1" --numeric-owner 2>/dev/null || { rm -f -- "$1"; fail bad_archive; }
)";
constexpr const char* kUnpack = R"(
trap 'rm -f -- "$1"' EXIT
[[ $2 ]] && parents "$2/x" make
cd -- "./$2" || fail denied
tar -xf "$1" --no-same-owner --keep-directory-symlink 2>/dev/null || fail bad_archive
)";

class Packing : public sandbox::ArchiveReader {
 public:
  Packing(std::unique_ptr<Events> events, Bytes most) : events_(std::move(events)), left_(most) {}

  awaitable<std::size_t> read(std::span<char> out) override {
    co_await wait();
    const std::size_t size = std::min(out.size(), rest_.size());
    std::copy_n(rest_.data(), size, out.data());
    rest_.erase(0, size);
    co_return size;
  }

  // Until there is something of it, or its end. Silence has an end of its own; words that are not
  // the archive's would go on for ever.
  awaitable<void> wait() {
    for (unsigned empty = 0; rest_.empty() && !ended_; ++empty) {
      if (empty >= kMaxEmpty) throw Error{Code::unavailable, "the archive can't be made"};
      co_await more();
    }
  }

 private:
  awaitable<void> more() {
    const auto message = co_await events_->next();
    if (!message) throw Error{Code::unavailable, "the archive was cut off"};
    const json::object* event = object_of(*message, "event");
    if (!event) co_return;
    if (const json::object* data = object_of(*event, "data")) {
      const std::string bytes = bytes_of(*data, "stdout");
      if (errors_.size() < kMaxErrors) errors_ += bytes_of(*data, "stderr");
      if (bytes.size() > left_.count) {
        throw FileError{FileProblem::too_large, "The archive is too large"};
      }
      left_.count -= bytes.size();
      rest_ += bytes;
    }
    const json::object* end = object_of(*event, "end");
    if (!end) co_return;
    ended_ = true;
    const auto code = number_of(*end, "exitCode");
    if (code == 9) refuse_file(errors_);
    if (code != 0) throw Error{Code::unavailable, "the archive can't be made"};
  }

  std::unique_ptr<Events> events_;
  Bytes left_;
  std::string rest_;
  std::string errors_;
  bool ended_ = false;
};

class Unpacking : public sandbox::ArchiveWriter {
 public:
  Unpacking(std::shared_ptr<Envd> envd, Spools& spools, std::string path,
            sandbox::FileLimits limits)
      : envd_(std::move(envd)), spool_(spools), path_(std::move(path)), limits_(limits) {}

  awaitable<bool> write(std::string_view bytes) override {
    full_ = full_ || !co_await spool_.add(bytes);
    if (!full_) size_ += bytes.size();
    co_return !full_;
  }

  awaitable<sandbox::Unpacked> finish() override {
    if (full_) throw Error{Code::exhausted, "Too many uploads wait on this server; try again"};
    const std::string file = co_await put_spool(*envd_, spool_, size_);
    std::vector<std::string> only{file};
    const std::string list = co_await ask_files(*envd_, kLook, only);
    const sandbox::Unpacked told = count(list);
    const bool too_many = told.files > limits_.count;
    if (too_many || told.bytes > limits_.workspace) {
      co_await ask_files(*envd_, "rm -f -- \"$1\"", only);
      if (too_many) throw FileError{FileProblem::too_many, "Maximum file count exceeded"};
      throw FileError{FileProblem::full, "The workspace is full"};
    }
    std::vector<std::string> parameters{file, path_};
    co_await ask_files(*envd_, kUnpack, std::move(parameters));
    co_return told;
  }

 private:
  // "-rw-r--r-- 1000/1000  12 2024-01-01 00:00 name"
  sandbox::Unpacked count(const std::string& list) const {
    sandbox::Unpacked told;
    std::string_view rest = list;
    while (!rest.empty()) {
      std::string_view line = rest.substr(0, rest.find('\n'));
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
      // Files, and links of both kinds.
      if (line.empty() || std::string_view{"-hl"}.find(line.front()) == line.npos) continue;
      line.remove_prefix(std::min(line.find('/'), line.size()));
      line.remove_prefix(std::min(line.find(' '), line.size()));
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      Bytes size;
      std::from_chars(line.data(), line.data() + line.size(), size.count);
      if (size > limits_.file) {
        throw FileError{FileProblem::too_large, "File size exceeds maximum allowed size"};
      }
      ++told.files;
      told.bytes = told.bytes + size;
    }
    return told;
  }

  std::shared_ptr<Envd> envd_;
  Spool spool_;
  std::string path_;
  sandbox::FileLimits limits_;
  std::uint64_t size_ = 0;
  bool full_ = false;
};

}  // namespace

awaitable<std::unique_ptr<sandbox::ArchiveReader>> E2bFiles::archive(std::vector<std::string> paths,
                                                                     bool gzip, Bytes most) {
  Helper helper;
  helper.script = file_script(kPack);
  helper.parameters.push_back(gzip ? "z" : "");
  for (std::string& path : paths) helper.parameters.push_back(std::move(path));
  json::object request = to_request(helper);
  auto events = co_await envd_->open("process.Process/Start", std::move(request));
  auto packing = std::make_unique<Packing>(std::move(events), most);
  // What is refused is refused before anything is sent.
  co_await packing->wait();
  co_return packing;
}

awaitable<std::unique_ptr<sandbox::ArchiveWriter>> E2bFiles::unpack(std::string path,
                                                                    sandbox::FileLimits limits) {
  co_return std::make_unique<Unpacking>(envd_, spools_, std::move(path), limits);
}

}  // namespace tb::e2b
