// SPDX-License-Identifier: Apache-2.0
#include "http/file_part.h"

#include <signal.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include <cerrno>

#include "http/exchange.h"

namespace tb::http {
namespace {

// sendfile(2) has no MSG_NOSIGNAL.
void ignore_sigpipe() {
  static const auto before = ::signal(SIGPIPE, SIG_IGN);
  (void)before;
}

// How many bytes were sent; 0: none, for now.
std::size_t count(ssize_t sent) {
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) return 0;
  throw Disconnected{};
}

bool push_text(int socket, std::string_view& text, bool more) {
  while (!text.empty()) {
    const int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (more ? MSG_MORE : 0);
    const std::size_t sent = count(::send(socket, text.data(), text.size(), flags));
    if (sent == 0) return false;
    text.remove_prefix(sent);
  }
  return true;
}

}  // namespace

bool push_file(int socket, FileBytes& bytes) {
  ignore_sigpipe();
  if (!push_text(socket, bytes.head, true)) return false;
  while (bytes.size > 0) {
    auto offset = static_cast<off_t>(bytes.offset);
    const ssize_t sent = ::sendfile(socket, bytes.file, &offset, bytes.size);
    if (sent == 0) throw Disconnected{};  // the end of the file
    const std::size_t taken = count(sent);
    if (taken == 0) return false;
    bytes.offset += taken;
    bytes.size -= taken;
  }
  return push_text(socket, bytes.tail, false);
}

}  // namespace tb::http
