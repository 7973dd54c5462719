// SPDX-License-Identifier: Apache-2.0
#include "base/spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace tb {

Spool::~Spool() {
  if (fd_ >= 0) ::close(fd_);
}

bool Spool::add(std::string_view bytes) {
  if (fd_ < 0) fd_ = ::open(dir_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ < 0) return false;
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

std::size_t Spool::read(std::uint64_t offset, std::string& out) const {
  if (fd_ < 0) return 0;
  const ssize_t got = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

}  // namespace tb
