// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/id.h"
#include "os/fd.h"

namespace tb::checkpoints {
namespace {

namespace fs = std::filesystem;

Error failed(const std::string& what) {
  return Error{Code::unavailable, "WORKSPACE_STORE: " + what + ": " + std::strerror(errno)};
}

// On disk under another name before it has its own: a crash leaves nothing that is half.
bool write_whole(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path{path}.parent_path());
  const std::string made = path + ".new-" + make_uuid().substr(0, 8);
  os::Fd file{::open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!file) throw failed("make " + made);
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t put = ::write(file.get(), rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) break;
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
  const bool whole =
      rest.empty() && ::fsync(file.get()) == 0 && ::rename(made.c_str(), path.c_str()) == 0;
  if (whole) return true;
  const Error error = failed("write " + path);
  ::unlink(made.c_str());
  throw error;
}

std::optional<std::string> read_whole(const std::string& path) {
  const os::Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!file && errno == ENOENT) return std::nullopt;
  if (!file) throw failed("open " + path);
  std::string bytes;
  std::string piece(1 << 20, '\0');
  for (;;) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw failed("read " + path);
    if (got == 0) return bytes;
    bytes.append(piece, 0, static_cast<std::size_t>(got));
    if (bytes.size() > kMostObject) throw Error{Code::unavailable, path + " is too large"};
  }
}

std::vector<std::string> names_below(const std::string& top, const std::string& prefix) {
  std::vector<std::string> keys;
  std::error_code problem;
  const fs::path from = fs::path{top} / prefix;
  fs::recursive_directory_iterator at{from, problem};
  if (problem == std::errc::no_such_file_or_directory) return keys;
  for (; !problem && at != fs::recursive_directory_iterator{}; at.increment(problem)) {
    if (!at->is_regular_file(problem)) continue;
    std::string key = at->path().lexically_relative(top).string();
    if (key.find('.') == key.npos) keys.push_back(std::move(key));  // else it is half a file
  }
  if (problem) throw Error{Code::unavailable, "WORKSPACE_STORE: list: " + problem.message()};
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace

awaitable<void> Directory::put(std::string key, std::string bytes) {
  auto work = [path = path_ + "/" + key, bytes = std::move(bytes)] {
    return write_whole(path, bytes);
  };
  co_await on_pool(pool_, std::move(work));
}

awaitable<std::optional<std::string>> Directory::get(std::string key) {
  auto work = [path = path_ + "/" + key] { return read_whole(path); };
  co_return co_await on_pool(pool_, std::move(work));
}

awaitable<std::vector<std::string>> Directory::list(std::string prefix) {
  auto work = [top = path_, prefix = std::move(prefix)] { return names_below(top, prefix); };
  co_return co_await on_pool(pool_, std::move(work));
}

awaitable<void> Directory::remove(std::string key) {
  auto work = [top = path_, key = std::move(key)] {
    fs::path path = fs::path{top} / key;
    std::error_code ignored;
    fs::remove(path, ignored);
    // Directories go with their last file; one that is not empty stays.
    while ((path = path.parent_path()) != top && fs::remove(path, ignored)) {
    }
    return true;
  };
  co_await on_pool(pool_, std::move(work));
}

}  // namespace tb::checkpoints
