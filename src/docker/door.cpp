// SPDX-License-Identifier: Apache-2.0
#include "docker/door.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <cstring>

#include "base/id.h"

namespace tb::docker {
namespace {

constexpr auto kToken = 1s;  // to be said by who has come

using Descriptor = asio::posix::stream_descriptor;

// Waited for, and somebody else's to close, also when the wait is given up.
struct Borrowed : Descriptor {
  using Descriptor::Descriptor;
  ~Borrowed() {
    if (is_open()) release();
  }
};

// Waits for what it is told to; the descriptors stay their owners'.
struct Watch {
  explicit Watch(asio::any_io_executor executor) : changed(executor) {}
  bool knocked = false;
  bool other = false;
  Signal changed;
};

void wait_for(Descriptor& descriptor, std::shared_ptr<Watch> watch, bool Watch::* what) {
  descriptor.async_wait(Descriptor::wait_read, [watch, what](boost::system::error_code error) {
    if (error) return;
    *watch.*what = true;
    watch->changed.notify_all();
  });
}

awaitable<bool> read_all(Descriptor& from, std::string& to) {
  const auto [error, got] =
      co_await asio::async_read(from, asio::buffer(to), asio::as_tuple(asio::use_awaitable));
  co_return !error && got == to.size();
}

}  // namespace

Door::Door(asio::any_io_executor executor, const std::string& dir) : executor_(executor) {
  if (dir.empty()) return;
  dir_ = os::Fd{::open(dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  listener_ = os::Fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!dir_ || !listener_) return;
  const std::string name = make_uuid();
  // A socket's path must be short, a directory's need not.
  const std::string path = "/proc/self/fd/" + std::to_string(dir_.get()) + "/" + name;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  if (::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return;
  name_ = name;
  token_ = make_uuid();
  const bool good = ::fchmodat(dir_.get(), name_.c_str(), 0666, 0) == 0;
  if (!good || ::listen(listener_.get(), 2) != 0) token_.clear();
}

Door::~Door() {
  if (!name_.empty()) ::unlinkat(dir_.get(), name_.c_str(), 0);
}

awaitable<os::Fd> Door::check(os::Fd socket) {
  std::string said(token_.size(), '\0');
  std::optional<bool> read;
  {
    Borrowed from{executor_, socket.get()};
    read = co_await within(kToken, read_all(from, said));
  }
  if (!read || !*read || said != token_) socket.reset();
  co_return socket;
}

awaitable<os::Fd> Door::admit(int instead, Milliseconds limit) {
  if (token_.empty()) co_return os::Fd{};
  const auto deadline = std::chrono::steady_clock::now() + limit;
  Borrowed door{executor_, listener_.get()};
  Borrowed other{executor_, instead};
  const auto watch = std::make_shared<Watch>(executor_);
  wait_for(other, watch, &Watch::other);
  os::Fd come;
  while (!come && !watch->other && std::chrono::steady_clock::now() < deadline) {
    watch->knocked = false;
    wait_for(door, watch, &Watch::knocked);
    const auto ready = [&] { return watch->knocked || watch->other; };
    const bool any = co_await watch->changed.until(ready, limit);
    if (!any) break;
    os::Fd socket{::accept4(door.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket) come = co_await check(std::move(socket));
  }
  co_return come;
}

}  // namespace tb::docker
