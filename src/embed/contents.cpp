// SPDX-License-Identifier: Apache-2.0
// Contents of files: read as bytes or lines, written, edited; trees as archives.
#include "base/error.h"
#include "embed/files.h"
#include "sandbox/lines.h"

namespace tb::embed {
namespace {

constexpr std::size_t kPiece = 256 << 10;
constexpr std::uint64_t kMostLines = 1000000000;

awaitable<std::unique_ptr<sandbox::OpenFile>> open(CoreRef core, const Work& work,
                                                   std::string path) {
  auto file = co_await work.files().open(std::move(path));
  const Bytes size = file->info().size;
  if (size > core->config.limits.disk) {
    throw LimitError{"File is larger than a workspace may be"};
  }
  co_return file;
}

}  // namespace

awaitable<std::string> read_file(CoreRef core, std::string id, std::string path) {
  std::string which = path_below(path);
  const auto work = co_await work_on(core, std::move(id), Purpose::use);
  const auto file = co_await open(core, *work, std::move(which));
  std::string bytes(file->info().size.count, '\0');
  for (std::size_t at = 0; at < bytes.size();) {
    const std::span<char> room{bytes.data() + at, bytes.size() - at};
    const std::size_t got = co_await file->read(at, room);
    if (got == 0) throw Error{Code::unavailable, "the file was cut while it was read"};
    at += got;
  }
  core->events.file_downloaded(work->who(), file->info().size, work->took());
  co_return bytes;
}

awaitable<sandbox::Lines> read_lines(CoreRef core, std::string id, std::string path,
                                     sandbox::LineRange range) {
  std::string which = path_below(path);
  if (range.first < 1 || range.first > kMostLines) {
    throw Error{Code::invalid, "lines are counted from 1 to 1000000000"};
  }
  if (range.count < 1) throw Error{Code::invalid, "the number of lines must be at least 1"};
  const auto work = co_await work_on(core, std::move(id), Purpose::use);
  const auto file = co_await open(core, *work, std::move(which));
  sandbox::Lines lines = co_await sandbox::read_lines(*file, range);
  core->events.file_downloaded(work->who(), file->info().size, work->took());
  co_return lines;
}

awaitable<FileView> write_file(CoreRef core, std::string id, std::string path, std::string bytes,
                               sandbox::Naming naming) {
  FileView view;
  view.path = path_below(path);
  check_mode(naming.mode);
  if (naming.exclusive && naming.append) {
    throw Error{Code::invalid, "give either exclusive or append"};
  }
  const auto work = co_await work_on(core, std::move(id), Purpose::use);
  sandbox::LimitedFile file{core->file_limits()};
  const Bytes expected{bytes.size()};
  co_await file.begin(work->files(), expected);
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    const std::string_view piece = std::string_view{bytes}.substr(at, kPiece);
    co_await file.write(piece);
  }
  sandbox::Named named = co_await file.commit(view.path, std::move(naming));
  view.info = std::move(named.info);
  core->events.file_uploaded(work->who(), view.info.size, work->took());
  co_return view;
}

awaitable<EditedView> edit_file(CoreRef core, std::string id, std::string path,
                                sandbox::Edit edit) {
  EditedView view;
  view.file.path = path_below(path);
  const auto work = co_await work_on(core, std::move(id), Purpose::use);
  const sandbox::FileLimits limits = core->file_limits();
  sandbox::Edited edited =
      co_await sandbox::edit_file(work->files(), view.file.path, std::move(edit), limits);
  view.file.info = std::move(edited.info);
  view.replaced = edited.replaced;
  view.lines = std::move(edited.lines);
  co_return view;
}

awaitable<std::string> read_archive(CoreRef core, std::string id, std::vector<std::string> paths,
                                    bool gzip) {
  for (std::string& path : paths) path = any_path(path);
  if (paths.empty()) paths.emplace_back();
  const auto work = co_await work_on(core, std::move(id), Purpose::use);
  const Bytes most = core->config.limits.disk;
  const auto archive = co_await work->files().archive(std::move(paths), gzip, most);
  std::string bytes;
  std::string buffer(kPiece, '\0');
  for (;;) {
    const std::size_t got = co_await archive->read(buffer);
    if (got == 0) break;
    bytes.append(buffer, 0, got);
  }
  co_return bytes;
}

awaitable<sandbox::Unpacked> write_archive(CoreRef core, std::string id, std::string path,
                                           std::string bytes) {
  std::string where = any_path(path);
  const auto work = co_await work_on(core, std::move(id), Purpose::use);
  const sandbox::FileLimits limits = core->file_limits();
  const auto archive = co_await work->files().unpack(std::move(where), limits);
  bool wanted = true;
  for (std::size_t at = 0; wanted && at < bytes.size(); at += kPiece) {
    const std::string_view piece = std::string_view{bytes}.substr(at, kPiece);
    wanted = co_await archive->write(piece);
  }
  const sandbox::Unpacked unpacked = co_await archive->finish();
  core->events.file_uploaded(work->who(), unpacked.bytes, work->took());
  co_return unpacked;
}

}  // namespace tb::embed
