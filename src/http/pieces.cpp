// SPDX-License-Identifier: Apache-2.0
#include "http/pieces.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "http/exchange.h"

namespace tb::http {

bool push_pieces(int socket, Pieces& pieces) {
  for (;;) {
    std::array<iovec, std::tuple_size_v<Pieces>> parts{};
    std::size_t count = 0;
    for (const std::string_view piece : pieces) {
      if (!piece.empty()) parts[count++] = {const_cast<char*>(piece.data()), piece.size()};
    }
    if (count == 0) return true;
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == ENOBUFS) return false;
      throw Disconnected{};
    }
    auto left = static_cast<std::size_t>(sent);
    for (std::string_view& piece : pieces) {
      const std::size_t taken = std::min(left, piece.size());
      piece.remove_prefix(taken);
      left -= taken;
    }
  }
}

}  // namespace tb::http
