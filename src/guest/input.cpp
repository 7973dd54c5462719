// SPDX-License-Identifier: Apache-2.0
#include "guest/input.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace tb::guest {
namespace {

constexpr std::size_t kPipeRoom = 60 << 10;  // what fits into a fresh pipe, as a rule

int write_whole(int fd, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n <= 0) return -1;
    done += static_cast<std::size_t>(n);
  }
  return 0;
}

}  // namespace

int text_file(const char* name, const std::string& text, bool confined) {
  // The tenant reads it, and may open it again through /proc.
  const int fd = confined ? ::open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0444)
                          : ::memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (write_whole(fd, text) != 0 || ::lseek(fd, 0, SEEK_SET) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

int open_input(const std::string& input, bool confined) {
  if (input.empty()) return ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (input.size() > kPipeRoom) return text_file("stdin", input, confined);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return -1;
  // A uid that has many pipes gets small ones: then a file does it too.
  const bool fits = write_whole(ends[1], input) == 0;
  ::close(ends[1]);
  if (!fits) {
    ::close(ends[0]);
    return text_file("stdin", input, confined);
  }
  ::fcntl(ends[0], F_SETFL, 0);  // blocking, as a program expects it
  return ends[0];
}

}  // namespace tb::guest
