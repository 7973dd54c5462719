// SPDX-License-Identifier: Apache-2.0
#include "native/write_behind.h"

#include <sys/uio.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <cerrno>
#include <string>
#include <vector>

namespace tb::native {
namespace {

// Enough that a writer finds its next piece waiting, little enough for many uploads at once.
constexpr std::size_t kMostBehind = 512 << 10;
// Of a file is written by the loop itself, where that takes memory alone: another thread's waking
// and a copy for it take longer. What is more would keep others waiting.
constexpr std::size_t kMostAtOnce = 1 << 20;

int write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return 0;
}

// How much of it did not have to wait for a disk, or for room.
std::size_t write_at_once(int file, std::string_view bytes) {
  iovec source{const_cast<char*>(bytes.data()), bytes.size()};
  return static_cast<std::size_t>(
      std::max<ssize_t>(0, ::pwritev2(file, &source, 1, -1, RWF_NOWAIT)));
}

}  // namespace

struct WriteBehind::Shared {
  Shared(asio::any_io_executor executor, asio::thread_pool& pool, os::Fd opened)
      : file(std::move(opened)), loop(executor), disk(pool.get_executor()), changed(executor) {}

  const os::Fd file;
  const asio::any_io_executor loop;
  asio::strand<asio::thread_pool::executor_type> disk;  // one at a time, in their order
  int broken = 0;                                       // the disk's: the first errno

  // The loop's.
  Signal changed;
  int failed = 0;
  std::size_t at_once = kMostAtOnce;  // that many bytes may be
  std::size_t behind = 0;             // bytes under way
  std::vector<std::string> spares;    // buffers: new ones would be new pages each time
};

WriteBehind::WriteBehind(asio::any_io_executor executor, asio::thread_pool& disk, os::Fd file)
    : shared_(std::make_shared<Shared>(executor, disk, std::move(file))) {}

awaitable<int> WriteBehind::write(std::string_view bytes) {
  const std::shared_ptr<Shared> shared = shared_;
  if (shared->behind == 0 && shared->failed == 0 && shared->at_once > 0) {
    const std::size_t put = write_at_once(shared->file.get(), bytes.substr(0, shared->at_once));
    shared->at_once -= put;
    bytes.remove_prefix(put);
    if (bytes.empty()) co_return 0;
    shared->at_once = 0;
  }
  while (shared->behind > 0 && shared->behind + bytes.size() > kMostBehind) {
    co_await shared->changed.wait();
  }
  if (shared->failed != 0) co_return shared->failed;
  std::string copy;
  if (!shared->spares.empty()) {
    copy = std::move(shared->spares.back());
    shared->spares.pop_back();
  }
  copy.assign(bytes);
  shared->behind += copy.size();
  asio::post(shared->disk, [shared, copy = std::move(copy)]() mutable {
    write_next(std::move(shared), std::move(copy));
  });
  co_return 0;
}

awaitable<int> WriteBehind::flush() {
  const std::shared_ptr<Shared> shared = shared_;
  while (shared->behind > 0) co_await shared->changed.wait();
  co_return shared->failed;
}

// On a thread of the disk. What is shared goes back to the loop whole: it is to end there.
void WriteBehind::write_next(std::shared_ptr<Shared> shared, std::string bytes) {
  if (shared->broken == 0) shared->broken = write_all(shared->file.get(), bytes);
  const int broken = shared->broken;
  const asio::any_io_executor loop = shared->loop;
  asio::post(loop, [shared = std::move(shared), bytes = std::move(bytes), broken]() mutable {
    shared->failed = broken;
    shared->behind -= bytes.size();
    shared->spares.push_back(std::move(bytes));
    shared->changed.notify_all();
  });
}

}  // namespace tb::native
