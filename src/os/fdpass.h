// SPDX-License-Identifier: Apache-2.0
// Packets with descriptors over unix seqpacket sockets. Free of exceptions: PID 1 uses it too.
#pragma once

#include <cstddef>
#include <string_view>

namespace tb::os {

constexpr std::size_t kMaxPassed = 4;         // descriptors in one packet
constexpr std::size_t kMaxPacket = 64 << 10;  // bytes in one packet; larger bodies go by memfd

struct Packet {
  char* data = nullptr;  // the caller's buffer
  std::size_t capacity = 0;
  std::size_t size = 0;
  int fds[kMaxPassed] = {-1, -1, -1, -1};  // closed on exec; the caller owns them
  std::size_t fd_count = 0;
};

// 1: a packet was sent. 0: the socket is full (EAGAIN). -1: errno says why.
int send_packet(int socket, std::string_view data, const int* fds = nullptr, std::size_t count = 0);

// 1: a packet arrived. 0: end of file. -1: errno says why (EAGAIN: nothing there). A packet that
// was cut short (too large for the buffer) is EMSGSIZE, and its descriptors are closed. One whose
// descriptors this process has no room for comes without any.
int receive_packet(int socket, Packet& packet);

}  // namespace tb::os
