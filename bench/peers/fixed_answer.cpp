// SPDX-License-Identifier: Apache-2.0
// What a request costs when nothing is done for it: answers whatever comes with the same bytes. Its
// first line is its port. Only for the benchmark.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

int main() {
  constexpr std::string_view kAnswer =
      "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 18\r\n\r\n"
      "{\"session_id\":\"-\"}";
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* where = reinterpret_cast<sockaddr*>(&address);
  if (::bind(listener, where, size) != 0 || ::listen(listener, 8) != 0) return 1;
  ::getsockname(listener, where, &size);
  std::printf("%d\n", ntohs(address.sin_port));
  std::fflush(stdout);
  for (;;) {
    const int peer = ::accept(listener, nullptr, nullptr);
    if (peer < 0) return 1;
    const int one = 1;
    ::setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    char request[4096];  // larger than any that it is sent
    while (::recv(peer, request, sizeof request, 0) > 0) {
      if (::send(peer, kAnswer.data(), kAnswer.size(), MSG_NOSIGNAL) < 0) break;
    }
    ::close(peer);
  }
}
