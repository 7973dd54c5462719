// SPDX-License-Identifier: Apache-2.0
// Files of a workspace, whole or piece by piece.
#include "embed/files.h"

#include "base/error.h"
#include "sandbox/paths.h"

namespace tb::embed {
namespace {

constexpr std::size_t kMostListed = 100000;

std::string path_of(const std::string& name) {
  if (auto path = sandbox::find_workspace_path(name)) return std::move(*path);
  throw sandbox::FileError{sandbox::FileProblem::bad_name, "Invalid filename"};
}

std::string in_mebibytes(Bytes bytes) { return std::to_string(bytes.count >> 20) + " MiB"; }

// The limits of uploads; inside of a sandbox its bytes alone are limited.
void check_room(const Core& core, const sandbox::Usage& used, Bytes size) {
  if (size > core.config.max_file_size) {
    throw LimitError{"File size exceeds maximum allowed size of " +
                     in_mebibytes(core.config.max_file_size)};
  }
  if (used.files >= core.config.max_total_files) {
    throw LimitError{"Maximum file count exceeded: " + std::to_string(used.files) + " of " +
                     std::to_string(core.config.max_total_files)};
  }
  if (used.bytes + size > core.config.limits.disk) {
    throw LimitError{"Workspace size limit exceeded: " + in_mebibytes(core.config.limits.disk)};
  }
}

awaitable<std::shared_ptr<Transfer>> begin(CoreRef core, std::string id) {
  const auto session = co_await core->reach(std::move(id));
  session::Use use = co_await core->sessions.use(session);
  co_return std::shared_ptr<Transfer>(new Transfer{session, std::move(use), nullptr, nullptr});
}

awaitable<void> add_bytes(CoreRef core, std::shared_ptr<Transfer> transfer,
                          std::string_view bytes) {
  check_room(*core, transfer->writing->used(), Bytes{transfer->at + bytes.size()});
  co_await transfer->writing->write(bytes);
  transfer->at += bytes.size();
}

awaitable<sandbox::FileInfo> commit(CoreRef core, std::shared_ptr<Transfer> transfer,
                                    std::string path) {
  sandbox::FileInfo info = co_await transfer->writing->commit(std::move(path));
  const auto took =
      std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - transfer->began);
  core->events.file_uploaded(transfer->session->who(), info.size, took);
  co_return info;
}

}  // namespace

awaitable<sandbox::FileInfo> upload(CoreRef core, std::string id, std::string name,
                                    std::string bytes) {
  std::string path = path_of(name);
  const auto transfer = co_await begin(core, std::move(id));
  transfer->writing = co_await transfer->use.sandbox().files().create();
  const std::string_view view = bytes;
  co_await add_bytes(core, transfer, view);
  co_return co_await commit(core, transfer, std::move(path));
}

awaitable<std::uint64_t> open_upload(CoreRef core, std::string id) {
  const auto transfer = co_await begin(core, std::move(id));
  transfer->writing = co_await transfer->use.sandbox().files().create();
  const Bytes nothing{};
  check_room(*core, transfer->writing->used(), nothing);
  co_return core->add(transfer);
}

awaitable<void> write_upload(CoreRef core, std::uint64_t handle, std::string bytes) {
  const auto transfer = core->transfer(handle);
  if (!transfer->writing) throw Error{Code::invalid, "the transfer is a download"};
  const std::string_view view = bytes;
  co_await add_bytes(core, transfer, view);
}

awaitable<sandbox::FileInfo> end_upload(CoreRef core, std::uint64_t handle, std::string name) {
  std::string path = path_of(name);
  const auto transfer = core->transfer(handle);
  if (!transfer->writing) throw Error{Code::invalid, "the transfer is a download"};
  core->drop(handle);
  co_return co_await commit(core, transfer, std::move(path));
}

awaitable<Opened> open_download(CoreRef core, std::string id, std::string name) {
  std::string path = path_of(name);
  const auto transfer = co_await begin(core, std::move(id));
  transfer->reading = co_await transfer->use.sandbox().files().open(std::move(path));
  Opened opened;
  opened.info = transfer->reading->info();
  if (opened.info.size > core->config.limits.disk) {
    throw LimitError{"File is larger than a workspace may be"};
  }
  opened.handle = core->add(transfer);
  co_return opened;
}

awaitable<std::string> read_download(CoreRef core, std::uint64_t handle, std::size_t limit) {
  const auto transfer = core->transfer(handle);
  if (!transfer->reading) throw Error{Code::invalid, "the transfer is an upload"};
  const std::uint64_t size = transfer->reading->info().size.count;
  std::string bytes(std::min<std::uint64_t>(limit, size - std::min(size, transfer->at)), '\0');
  if (bytes.empty()) co_return bytes;
  const std::span<char> room{bytes.data(), bytes.size()};
  const std::size_t got = co_await transfer->reading->read(transfer->at, room);
  if (got == 0) throw Error{Code::unavailable, "the file was cut while it was read"};
  bytes.resize(got);
  transfer->at += got;
  co_return bytes;
}

awaitable<void> close_transfer(CoreRef core, std::uint64_t handle) {
  core->drop(handle);
  co_return;
}

awaitable<sandbox::Listing> list_files(CoreRef core, std::string id, std::string path) {
  std::string relative = path.empty() ? std::string{} : path_of(path);
  const auto session = co_await core->reach(std::move(id));
  const session::Use use = co_await core->sessions.look(session);
  sandbox::Listing listing = co_await use.sandbox().files().list(std::move(relative), kMostListed);
  core->events.files_listed();
  co_return listing;
}

}  // namespace tb::embed
