// SPDX-License-Identifier: Apache-2.0
#include "os/fdpass.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace tb::os {

int send_packet(int socket, std::string_view data, const int* fds, std::size_t count) {
  iovec part{const_cast<char*>(data.data()), data.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPassed)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * count);
    std::memcpy(CMSG_DATA(header), fds, sizeof(int) * count);
  }
  for (;;) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 1;
    if (errno == EINTR) continue;
    return errno == EAGAIN ? 0 : -1;
  }
}

namespace {

void take_fds(msghdr& message, Packet& packet) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count && packet.fd_count < kMaxPassed; ++i) {
      std::memcpy(&packet.fds[packet.fd_count++], CMSG_DATA(header) + i * sizeof(int), sizeof(int));
    }
  }
}

}  // namespace

int receive_packet(int socket, Packet& packet) {
  iovec part{packet.data, packet.capacity};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxPassed)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  packet.size = 0;
  packet.fd_count = 0;
  // Who closes before it has read everything resets the connection, and the kernel tells that
  // first, once; what it had sent is still to come.
  ssize_t n;
  do {
    n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (n < 0 && (errno == EINTR || errno == ECONNRESET));
  if (n < 0) return -1;
  take_fds(message, packet);
  if (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
    for (std::size_t i = 0; i < packet.fd_count; ++i) ::close(packet.fds[i]);
    packet.fd_count = 0;
  }
  if (message.msg_flags & MSG_TRUNC) {
    errno = EMSGSIZE;
    return -1;
  }
  if (n == 0 && packet.fd_count == 0) return 0;
  packet.size = static_cast<std::size_t>(n);
  return 1;
}

}  // namespace tb::os
