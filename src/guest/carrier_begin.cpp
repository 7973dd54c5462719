// SPDX-License-Identifier: Apache-2.0
#include "guest/carrier_begin.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "guest/carrier_wire.h"

namespace tb::guest {
namespace {

using carrier::Kind;

bool read_all(char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::read(STDIN_FILENO, to, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

}  // namespace

bool read_begin(std::string& name, std::string& token) {
  std::uint32_t size = 0;
  char text[carrier::kMaxBegin];
  if (!read_all(reinterpret_cast<char*>(&size), sizeof size)) return false;
  if (size < 1 || size > sizeof text || !read_all(text, size)) return false;
  Reader in{{text + 1, size - 1}};
  name = in.bytes();
  token = in.bytes();
  return in.done() && static_cast<Kind>(text[0]) == Kind::begin;
}

bool take_shortcut(const std::string& name, const std::string& token) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = std::string{carrier::kDoorDir} + "/" + name;
  if (name.empty() || path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool there =
      server >= 0 &&
      ::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      ::send(server, token.data(), token.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(token.size());
  if (there) {
    // What the engine gave us stays open: to it we are what is at its other end.
    ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 10);
    ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 10);
    ::dup2(server, STDIN_FILENO);
    ::dup2(server, STDOUT_FILENO);
  }
  if (server >= 0) ::close(server);
  return there;
}

}  // namespace tb::guest
