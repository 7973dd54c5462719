// SPDX-License-Identifier: Apache-2.0
#include "jail/slots.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <filesystem>

#include "os/fault.h"

namespace tb::jail {

Slots::Slots(const std::string& file) {
  const std::string dir = std::filesystem::path{file}.parent_path();
  std::filesystem::create_directories(dir);
  check(::chmod(dir.c_str(), 0755), "chmod " + dir);  // others must not put a file of theirs there
  file_ = os::Fd{
      check(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600), "open " + file)};
}

bool Slots::lock(std::uint32_t slot) {
  struct flock range{};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = slot;
  range.l_len = 1;
  if (::fcntl(file_.get(), F_OFD_SETLK, &range) == 0) return true;
  if (errno == EAGAIN || errno == EACCES) return false;
  throw SystemError{errno, "claim a uid slot"};
}

std::uint32_t Slots::claim(std::optional<std::uint32_t> wanted) {
  if (os::attempt_must_fail()) throw SystemError{EIO, "claim a uid slot"};
  if (wanted && try_claim(*wanted)) return *wanted;
  for (std::uint32_t tried = 0; tried < kSlots; ++tried) {
    const std::uint32_t slot = next_;
    next_ = (next_ + 1) % kSlots;
    if (held_.contains(slot) || !lock(slot)) continue;
    held_.insert(slot);
    return slot;
  }
  throw Error{Code::exhausted, "all uid slots of this machine are in use"};
}

bool Slots::try_claim(std::uint32_t slot) {
  if (slot >= kSlots || held_.contains(slot) || !lock(slot)) return false;
  held_.insert(slot);
  return true;
}

void Slots::release(std::uint32_t slot) {
  if (held_.erase(slot) == 0) return;
  struct flock range{};
  range.l_type = F_UNLCK;
  range.l_whence = SEEK_SET;
  range.l_start = slot;
  range.l_len = 1;
  ::fcntl(file_.get(), F_OFD_SETLK, &range);
}

}  // namespace tb::jail
