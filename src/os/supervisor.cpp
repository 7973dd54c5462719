// SPDX-License-Identifier: Apache-2.0
#include "os/supervisor.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstddef>
#include <cstdlib>

#include "os/fd.h"

namespace tb::os {
namespace {

std::string take(const char* name) {
  const char* value = std::getenv(name);
  const std::string text = value ? value : "";
  ::unsetenv(name);
  return text;
}

long number(const std::string& text) {
  long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? value : 0;
}

}  // namespace

Supervisor Supervisor::of_environment() {
  Supervisor supervisor;
  supervisor.socket_ = take("NOTIFY_SOCKET");
  const std::string period = take("WATCHDOG_USEC");
  const std::string pid = take("WATCHDOG_PID");
  if (pid.empty() || number(pid) == ::getpid()) {
    supervisor.watchdog_ = std::chrono::microseconds{std::max(0L, number(period))};
  }
  return supervisor;
}

void Supervisor::tell(std::string_view words) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket_.empty() || socket_.size() >= sizeof address.sun_path) return;
  socket_.copy(address.sun_path, socket_.size());
  if (socket_[0] == '@') address.sun_path[0] = '\0';  // an abstract name
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  const Fd socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  if (!socket) return;
  (void)!::sendto(socket.get(), words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                  reinterpret_cast<sockaddr*>(&address), size);
}

}  // namespace tb::os
