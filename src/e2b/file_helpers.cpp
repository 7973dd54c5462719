// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <charconv>

#include "base/id.h"
#include "base/log.h"
#include "e2b/files.h"

namespace tb::e2b {
namespace {

using sandbox::FileError;
using sandbox::FileInfo;
using sandbox::FileProblem;
using sandbox::FileType;

constexpr int kRefused = 9;
constexpr std::size_t kPiece = 256 << 10;

// fail NAME: ends with one of the problems below.
// parents PATH [make]: every directory before the last part is one, and no link.
// info PATH: its description, as read_info() reads it; the name comes last, as given.
constexpr const char* kBegin = R"(
fail() { printf '%s' "$1" >&2; exit 9; }
parents() {
  local rest=$1 at=. part
  while [[ $rest == */* ]]; do
    part=${rest%%/*} rest=${rest#*/} at+=/$part
    [[ -L $at ]] && fail link
    if [[ ! -e $at ]]; then
      [[ ${2-} ]] || fail not_found
      mkdir -- "$at" 2>/dev/null || fail denied
    fi
    [[ -d $at ]] || fail blocked
  done
}
info() {
  local target=
  [[ -L ./$1 ]] && target=$(readlink -- "./$1")
  stat -c "%f %s %.9Y %i-%.9Z-%s" -- "./$1" || fail not_found
  printf '%s\0%s\0' "$target" "$1"
}
cd /workspace || fail not_found
)";

struct Problem {
  std::string_view name;
  FileProblem problem;
  const char* text;
};
constexpr Problem kProblems[] = {
    {"not_found", FileProblem::not_found, "File not found in workspace"},
    {"not_regular", FileProblem::not_regular, "Not a regular file"},
    {"link", FileProblem::link, "A symbolic link has this name"},
    {"blocked", FileProblem::blocked, "A part of the path is not a directory"},
    {"denied", FileProblem::denied, "The file's permissions forbid this"},
    {"full", FileProblem::full, "The sandbox's disk is full"},
    {"exists", FileProblem::exists, "Something has this name already"},
    {"not_empty", FileProblem::not_empty, "The directory is not empty"},
    {"too_large", FileProblem::too_large, "File size exceeds maximum allowed size"},
    {"changed", FileProblem::changed,
     "The file was changed meanwhile; read it again, then try again"},
    {"into_itself", FileProblem::bad_name,
     "Invalid filename: a directory can't be moved into itself"},
    {"bad_archive", FileProblem::bad_archive, "The archive can't be unpacked"},
};

FileType type_of(unsigned mode) {
  if (S_ISREG(mode)) return FileType::file;
  if (S_ISDIR(mode)) return FileType::directory;
  return S_ISLNK(mode) ? FileType::link : FileType::other;
}

std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view word = text.substr(0, at);
  text.remove_prefix(at == text.npos ? text.size() : at + 1);
  return word;
}

template <class T>
T number(std::string_view text, int base = 10) {
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value, base);
  return value;
}

}  // namespace

std::string file_script(const std::string& script) { return kBegin + script; }

void refuse_file(const std::string& errors) {
  log(LogLevel::debug, "e2b_file_refused", {{"errors", errors.substr(0, 400)}});
  for (const Problem& known : kProblems) {
    if (errors.ends_with(known.name)) throw FileError{known.problem, known.text};
  }
  throw Error{Code::internal, "file access in the sandbox: " + errors.substr(0, 200)};
}

awaitable<std::string> ask_files(Envd& envd, std::string script,
                                 std::vector<std::string> parameters) {
  Helper helper;
  helper.script = file_script(script);
  helper.parameters = std::move(parameters);
  Ran ran = co_await run_helper(envd, std::move(helper));
  if (ran.code == kRefused) refuse_file(ran.errors);
  if (ran.code != 0) {
    throw Error{Code::unavailable,
                "The sandbox can't work on files now: " + ran.errors.substr(0, 200)};
  }
  co_return std::move(ran.out);
}

FileInfo read_info(std::string_view line) {
  FileInfo info;
  info.mode = number<unsigned>(take_until(line, ' '), 16);
  info.type = type_of(info.mode);
  info.size = Bytes{number<std::uint64_t>(take_until(line, ' '))};
  std::string_view time = take_until(line, ' ');
  const std::chrono::seconds seconds{number<std::int64_t>(take_until(time, '.'))};
  const std::chrono::nanoseconds rest{number<std::int64_t>(time.substr(0, 9))};
  info.modified = std::chrono::system_clock::time_point{
      std::chrono::duration_cast<std::chrono::system_clock::duration>(seconds + rest)};
  info.version = take_until(line, '\n');
  info.target = take_until(line, '\0');
  info.name = take_until(line, '\0');
  return info;
}

awaitable<std::string> put_spool(Envd& envd, Spool& spool, std::uint64_t size) {
  const std::string path = "/tmp/.threadbox/new-" + make_uuid();
  std::uint64_t at = 0;
  auto next = [&]() -> awaitable<std::string> {
    std::string piece(kPiece, '\0');
    const std::size_t got = size == 0 ? 0 : co_await spool.read(at, piece);
    piece.resize(got);
    at += got;
    co_return piece;
  };
  try {
    co_await envd.write_file(path, size, next);
  } catch (const CallError& error) {
    if (error.name() == "no_space")
      throw FileError{FileProblem::full, "The sandbox's disk is full"};
    throw;
  }
  co_return path;
}

}  // namespace tb::e2b
