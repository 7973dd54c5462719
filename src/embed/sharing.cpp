// SPDX-License-Identifier: Apache-2.0
#include "embed/sharing.h"

#include <fcntl.h>
#include <sys/file.h>

#include <functional>
#include <utility>

#include "base/error.h"
#include "base/units.h"

namespace tb::embed {
namespace {

constexpr auto kLook = 2ms;  // others hold a name as long as a creation takes
constexpr auto kPatience = 60s;

os::Fd open_lock(const std::string& path) {
  return os::Fd{check(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600), "open " + path)};
}

}  // namespace

StateLock::StateLock(const std::string& state_dir) : file_(open_lock(state_dir + "/server.lock")) {
  alone_ = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0;
  if (alone_ || ::flock(file_.get(), LOCK_SH | LOCK_NB) == 0) return;
  throw Error{Code::conflict, "a server has the state directory " + state_dir +
                                  ": name another one (state_dir), or use the server"};
}

void StateLock::share() {
  if (!std::exchange(alone_, false)) return;
  // Not in one step: a server may take it in between, and would keep us waiting for its life.
  if (::flock(file_.get(), LOCK_SH | LOCK_NB) == 0) return;
  throw Error{Code::conflict,
              "a server took the state directory: name another one (state_dir), or use the server"};
}

NameLocks::NameLocks(asio::any_io_executor executor, const std::string& state_dir)
    : file_(open_lock(state_dir + "/names.lock")), changed_(executor) {}

// A byte of the file for each name.
bool NameLocks::try_lock(const std::string& name, short type) const {
  struct flock range{};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = static_cast<off_t>(std::hash<std::string>{}(name) >> 2);
  range.l_len = 1;
  return ::fcntl(file_.get(), F_OFD_SETLK, &range) == 0;
}

awaitable<NameLocks::Held> NameLocks::lock(std::string name) {
  const auto executor = co_await asio::this_coro::executor;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (held_.contains(name)) co_await changed_.wait();
  held_.insert(name);
  Held held{*this, name};
  while (!try_lock(name, F_WRLCK)) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw Error{Code::unavailable, "another program has been making this session for a minute"};
    }
    asio::steady_timer timer{executor, kLook};
    co_await timer.async_wait(asio::use_awaitable);
  }
  co_return held;
}

void NameLocks::unlock(const std::string& name) {
  try_lock(name, F_UNLCK);
  held_.erase(name);
  changed_.notify_all();
}

}  // namespace tb::embed
