// SPDX-License-Identifier: Apache-2.0
#include "http/unsent.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace tb::http {
namespace {

constexpr int kLittle = 256 << 10;
constexpr int kMore = 1 << 20;
// Beyond what a reader's kernel takes on its own, while the reader itself reads nothing.
constexpr std::uint64_t kShown = 8 << 20;
constexpr auto kPause = std::chrono::milliseconds{20};

// Fails on a unix socket, which never holds as much.
void limit(int socket, int bytes) {
  ::setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

}  // namespace

void keep_little_unsent(int socket) { limit(socket, kLittle); }

std::size_t unsent(int socket) {
  int bytes = 0;
  if (::ioctl(socket, SIOCOUTQ, &bytes) != 0) return 0;
  return static_cast<std::size_t>(bytes);
}

// As much as makes the socket of a slow reader writable again.
bool reader_goes_on(int socket, std::size_t before) {
  return unsent(socket) + kLittle / 2 <= before;
}

void Unsent::note(std::uint64_t bytes, std::chrono::nanoseconds waited) {
  fast_ = waited < kPause ? fast_ + bytes : 0;
  allow_more(fast_ >= kShown);
}

void Unsent::allow_more(bool more) {
  if (more == more_) return;
  limit(socket_, more ? kMore : kLittle);
  more_ = more;
}

}  // namespace tb::http
