// SPDX-License-Identifier: Apache-2.0
#include "base/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace tb {

Spool::~Spool() {
  if (fd_ >= 0) ::close(fd_);
  spools_.held_ = Bytes{spools_.held_.count - size_.count};
}

awaitable<bool> Spool::add(std::string_view bytes) {
  const Bytes more{bytes.size()};
  if (spools_.held_ + more > spools_.most_) co_return false;
  spools_.held_ = spools_.held_ + more;
  size_ = size_ + more;
  auto work = [this, bytes] { return write(bytes); };
  co_return co_await on_pool(spools_.thread_, work);
}

bool Spool::write(std::string_view bytes) {
  if (fd_ < 0) fd_ = ::open(spools_.dir_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ < 0) return false;
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

awaitable<std::size_t> Spool::read(std::uint64_t offset, std::string& out) {
  if (fd_ < 0) co_return 0;
  auto work = [fd = fd_, offset, &out] {
    return ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
  };
  const ssize_t got = co_await on_pool(spools_.thread_, work);
  co_return got > 0 ? static_cast<std::size_t>(got) : 0;
}

}  // namespace tb
