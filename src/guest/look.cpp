// SPDX-License-Identifier: Apache-2.0
#include "guest/look.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>

namespace tb::guest {
namespace {

std::string read_of(int pid, const char* what) {
  const std::string path = "/proc/" + std::to_string(pid) + what;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  char buffer[256];
  const ssize_t n = ::read(fd, buffer, sizeof buffer);
  ::close(fd);
  return n > 0 ? std::string(buffer, static_cast<std::size_t>(n)) : std::string{};
}

}  // namespace

// pid (name) state, and ten more before the ticks of user and system. The name may be anything.
Look look_at(int pid) {
  constexpr int kBetween = 11;
  const std::string text = read_of(pid, "/stat");
  const std::size_t name = text.rfind(") ");
  if (name == text.npos || name + 2 >= text.size()) return {};
  Look look;
  look.state = text[name + 2];
  std::size_t at = name + 2;
  for (int i = 0; i < kBetween && at != text.npos; ++i) at = text.find(' ', at + 1);
  for (int i = 0; i < 2 && at != text.npos; ++i) {
    std::uint64_t ticks = 0;
    std::from_chars(text.data() + at + 1, text.data() + text.size(), ticks);
    look.ticks += ticks;
    at = text.find(' ', at + 1);
  }
  return look;
}

std::string words_of(int pid) { return read_of(pid, "/cmdline"); }

}  // namespace tb::guest
