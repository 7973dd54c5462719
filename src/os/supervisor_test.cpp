// SPDX-License-Identifier: Apache-2.0
#include "os/supervisor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

#include "os/fd.h"
#include "os/test_dir.h"

namespace tb::os {
namespace {

// The other end, at a path or, with '@' before it, at an abstract name.
class Ear {
 public:
  explicit Ear(const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path, sizeof address.sun_path - 1);
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    check(::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), size), "bind");
    ::setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  // Empty: nothing was said.
  std::string heard() const {
    char buffer[256];
    const ssize_t n = ::recv(socket_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    return n > 0 ? std::string{buffer, static_cast<std::size_t>(n)} : "";
  }

 private:
  Fd socket_{check(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket")};
};

TEST(Supervisor, HearsWordsAtAPath) {
  const TestDir dir;
  const Ear ear{dir.path() + "/notify"};
  const Supervisor supervisor = Supervisor::of_environment();
  supervisor.tell("READY=1\nSTATUS=fine");
  EXPECT_EQ(ear.heard(), "READY=1\nSTATUS=fine");
}

TEST(Supervisor, HearsWordsAtAnAbstractName) {
  const Ear ear{"@threadbox-test-" + std::to_string(::getpid())};
  const Supervisor supervisor = Supervisor::of_environment();
  supervisor.tell("STOPPING=1");
  EXPECT_EQ(ear.heard(), "STOPPING=1");
}

TEST(Supervisor, IsNotInheritedByWhatWeStart) {
  ::setenv("NOTIFY_SOCKET", "/nonexistent/notify", 1);
  ::setenv("WATCHDOG_USEC", "5000000", 1);
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  const Supervisor supervisor = Supervisor::of_environment();
  EXPECT_EQ(supervisor.watchdog(), std::chrono::seconds{5});
  for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) {
    EXPECT_EQ(std::getenv(name), nullptr) << name;
  }
  supervisor.tell("READY=1");  // to nobody, and that is fine
  Supervisor{}.tell("READY=1");
}

TEST(Supervisor, TheWatchdogOfAnotherProcessIsNotOurs) {
  ::setenv("WATCHDOG_USEC", "5000000", 1);
  ::setenv("WATCHDOG_PID", "1", 1);
  EXPECT_EQ(Supervisor::of_environment().watchdog().count(), 0);
  for (const char* wrong : {"", "x", "-5", "5s", "99999999999999999999999"}) {
    ::setenv("WATCHDOG_USEC", wrong, 1);
    EXPECT_EQ(Supervisor::of_environment().watchdog().count(), 0) << wrong;
  }
}

}  // namespace
}  // namespace tb::os
