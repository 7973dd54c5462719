// SPDX-License-Identifier: Apache-2.0
// PID 1 of a sandbox: confines itself, then starts, watches and ends commands as the server says.
// It outlives the server; when the keeper goes, it goes, and the kernel ends all the rest with it.
// In a container it is `guest box ID`, and there is no keeper: servers come through `guest carry
// ID`, which the container's engine starts.

#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "guest/carrier.h"
#include "guest/commands.h"
#include "guest/confine.h"
#include "guest/container.h"
#include "guest/files.h"
#include "guest/wire.h"
#include "os/fdpass.h"
#include "os/prompt.h"

namespace tb::guest {
namespace {

char packet_buffer[os::kMaxPacket];

// 64 MiB bounds what a message in a file may hold; the server refuses larger ones before.
constexpr off_t kMaxMessage = 64 << 20;

[[noreturn]] void fail(const char* step) {
  Failure failure{0, errno, step};
  Writer out;
  failure.encode(out, Message::jail_failed);
  os::send_packet(kControlFd, out.view());
  ::_exit(1);
}

bool read_file(int fd, std::string& content) {
  struct stat info{};
  if (::fstat(fd, &info) != 0 || info.st_size > kMaxMessage) return false;
  content.resize(static_cast<std::size_t>(info.st_size));
  std::size_t done = 0;
  while (done < content.size()) {
    const ssize_t n =
        ::pread(fd, content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (n <= 0) return false;
    done += static_cast<std::size_t>(n);
  }
  return true;
}

Config load_config() {
  std::string text;
  Config config;
  if (!read_file(kConfigFd, text)) fail("read the guest's configuration");
  Reader in{text};
  if (!Config::decode(in, config)) fail("understand the guest's configuration");
  ::close(kConfigFd);
  return config;
}

int watch(int epoll, int fd, unsigned events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

int watch_children(int epoll) {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  const int fd = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd < 0 || watch(epoll, fd, EPOLLIN) != 0) fail("watch child processes");
  return fd;
}

class Guest {
 public:
  explicit Guest(const Config& config)
      : config_(config),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        children_(watch_children(epoll_)),
        commands_(config, epoll_) {
    const bool served = config.in_container || watch(epoll_, kControlFd, EPOLLIN) == 0;
    if (!served || watch(epoll_, kKeeperFd, EPOLLIN) != 0) {
      fail("watch the sockets");
    }
    if (config.in_container) control_ = -1;
    report();
  }

  [[noreturn]] void run() {
    for (;;) {
      epoll_event events[8];
      int timeout = commands_.enforce_deadlines();
      report();  // a shell may have taken its command when it was looked at
      if (config_.in_container) {
        const int left = expiry_.left();
        if (left == 0) end_container(expiry_.with_files());
        timeout = timeout < 0 ? left : std::min(timeout, left);
      }
      const int n = ::epoll_wait(epoll_, events, 8, timeout);
      for (int i = 0; i < n; ++i) handle(events[i].data.fd);
      report();
      commands_.let_go();
      commands_.refill();
    }
  }

 private:
  void handle(int fd) {
    if (fd == children_) {
      signalfd_siginfo info[16];
      while (::read(children_, info, sizeof info) > 0) {
      }
      commands_.reap();
    } else if (fd == kKeeperFd && config_.in_container) {
      from_door();
    } else if (fd == kKeeperFd) {
      from_keeper();
    } else if (fd == control_) {
      from_server();
    } else {
      commands_.on_report(fd);
    }
  }

  // The keeper says one thing only: here is the next server.
  void from_keeper() {
    os::Packet packet{packet_buffer, sizeof packet_buffer};
    const int result = os::receive_packet(kKeeperFd, packet);
    if (result == 0 || (result < 0 && errno != EAGAIN)) ::_exit(0);
    if (result < 0 || packet.fd_count != 1) return;
    serve(packet.fds[0]);
  }

  void from_door() {
    const int carrier = admit(kKeeperFd);
    if (carrier >= 0) serve(carrier);
  }

  void serve(int socket) {
    drop_server();
    expiry_.server(true);
    // Always here: a command that is launched with a long script makes this number its own.
    control_ = socket;
    if (control_ != kControlFd && ::dup3(control_, kControlFd, O_CLOEXEC) >= 0) {
      ::close(control_);
      control_ = kControlFd;
    }
    watch(epoll_, control_, EPOLLIN);
    commands_.tell_again();
  }

  void from_server() {
    for (int budget = 64; budget > 0 && control_ >= 0; --budget) {
      os::Packet packet{packet_buffer, sizeof packet_buffer};
      const int result = os::receive_packet(control_, packet);
      if (result < 0 && errno == EAGAIN) return;
      if (result <= 0) return drop_server();
      obey({packet.data, packet.size}, packet.fd_count > 0 ? packet.fds[0] : -1);
      for (std::size_t i = 0; i < packet.fd_count; ++i) ::close(packet.fds[i]);
    }
  }

  void obey(std::string_view message, int file) {
    Reader in{message};
    const auto type = static_cast<Message>(in.u8());
    if (type == Message::by_file && file >= 0) {
      std::string content;
      if (read_file(file, content)) obey(content, -1);
    } else if (type == Message::start) {
      Start start;
      if (Start::decode(in, start)) commands_.start(std::move(start));
    } else if (type == Message::signal) {
      Signal signal;
      if (Signal::decode(in, signal)) commands_.signal(signal);
    } else if (type == Message::release) {
      Release release;
      if (Release::decode(in, release)) commands_.release(release);
    } else if (type == Message::close_input) {
      CloseInput close;
      if (CloseInput::decode(in, close)) commands_.close_input(close);
    } else if (type == Message::lease) {
      Lease lease;
      if (Lease::decode(in, lease)) expiry_.renew(lease);
    } else if (type == Message::stored) {
      Taken stored;
      // A carrier that does not take so short a word reads nothing: the next one is told anew.
      if (Taken::decode(in, stored) && !commands_.drop_output(stored, control_)) drop_server();
    } else if (type == Message::expect) {
      Expect expect;
      if (Expect::decode(in, expect)) commands_.expect(std::move(expect));
    } else if (type == Message::files && file >= 0) {
      // Failing is an answer too: the server sees its socket end.
      const int helper = start_file_helper(config_, file);
      if (helper > 0) commands_.spare(helper);
    }
  }

  // Commands go on; what they print waits in the pipes for the next server.
  void drop_server() {
    if (control_ < 0) return;
    // Its number stays taken: the next server's socket gets it, and whoever had it meanwhile would
    // lose it.
    if (control_ != kControlFd || ::dup3(0, kControlFd, O_CLOEXEC) < 0) ::close(control_);
    control_ = -1;
    writable_wanted_ = false;
    expiry_.server(false);
  }

  void report() {
    if (control_ < 0) return;
    const bool all = commands_.report(control_);
    if (all == !writable_wanted_) return;
    writable_wanted_ = !all;
    epoll_event event{};
    event.events = writable_wanted_ ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.fd = control_;
    ::epoll_ctl(epoll_, EPOLL_CTL_MOD, control_, &event);
  }

  const Config& config_;
  int epoll_;
  int children_;
  int control_ = kControlFd;
  bool writable_wanted_ = false;
  Commands commands_;
  Expiry expiry_;
};

// What the engine shows as the container's output, and as the reason why it did not start.
[[noreturn]] void fail_in_container(const char* step) {
  std::fprintf(stderr, "threadbox-guest: can't %s: %s\n", step, std::strerror(errno));
  ::_exit(1);
}

[[noreturn]] void run_in_container(const char* id) {
  if (::getpid() != 1) {
    errno = EINVAL;
    fail_in_container("be anything but the first process");
  }
  // Nobody else may get the number that servers have, one after the other.
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int door = open_door(id);
  if (nothing != kControlFd || door != kKeeperFd) fail_in_container("open the door");
  open_waiter();
  static const Config config = container_config();
  if (const char* step = confine_in_container()) fail_in_container(step);
  static Guest guest{config};
  guest.run();
}

}  // namespace
}  // namespace tb::guest

int main(int argc, char** argv) {
  using namespace tb::guest;
  tb::os::run_promptly();
  if (argc == 3 && std::string_view{argv[1]} == "box") run_in_container(argv[2]);
  if (argc == 3 && std::string_view{argv[1]} == "carry") return carry(argv[2]);
  static const Config config = load_config();
  if (const char* step = confine(config)) fail(step);
  static Guest guest{config};
  guest.run();
}
