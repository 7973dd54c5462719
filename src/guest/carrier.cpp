// SPDX-License-Identifier: Apache-2.0
#include "guest/carrier.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "guest/carried.h"
#include "guest/carrier_begin.h"
#include "guest/carrier_files.h"
#include "guest/carrier_wire.h"
#include "guest/clock.h"
#include "guest/container.h"
#include "os/fdpass.h"

namespace tb::guest {
namespace {

using carrier::Kind;

constexpr std::size_t kInlineMessage = 48 << 10;  // larger ones go to PID 1 in a file
constexpr std::size_t kMaxOut = 1 << 20;          // that the server has not taken yet
constexpr std::size_t kMaxHeld = 32 << 10;
// A command's beginning, and what it prints right then, go with its end, if that is as near: each
// write of ours through the engine wakes two programs before the server hears it, on the cores that
// run the command.
constexpr std::uint64_t kHold = 3000;  // microseconds
constexpr int kExitRounds = 64;        // of output before an end is told that others print after

void set_nonblocking(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

class Carrier {
 public:
  // `direct`: what we write reaches the server without the engine.
  Carrier(int guest, bool direct)
      : guest_(guest),
        direct_(direct),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        files_({[this](int socket) { tell_guest({kFiles, 1}, socket); },
                [this](int fd, unsigned events) { rewatch(fd, events); },
                [this](Kind kind, std::string_view payload) { send(kind, payload); }}) {
    set_nonblocking(STDIN_FILENO);
    set_nonblocking(STDOUT_FILENO);
    watch(STDIN_FILENO, EPOLLIN);
    watch(guest_, EPOLLIN);
  }

  int run() {
    while (!over_) {
      epoll_event events[32];
      const int n = ::epoll_wait(epoll_, events, 32, holds() ? static_cast<int>(kHold / 1000) : -1);
      for (int i = 0; i < n && !over_; ++i) handle(events[i].data.fd, events[i].events);
      flush();
      if (paused_ && out_.size() - out_at_ < kMaxOut / 2) resume();
    }
    return 0;
  }

 private:
  void watch(int fd, unsigned events) {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }

  void rewatch(int fd, unsigned events) {
    if (events != 0) return watch(fd, events);
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  }

  void handle(int fd, unsigned events) {
    if (fd == STDIN_FILENO) return from_server();
    if (fd == STDOUT_FILENO) {
      if (events & (EPOLLERR | EPOLLHUP)) over_ = true;
      return;
    }
    if (fd == guest_) return from_guest();
    if (files_.on_ready(fd)) return;
    for (const auto& command : commands_) {
      for (int stream = 0; stream < command->streams(); ++stream) {
        if (command->source(stream) != fd) continue;
        copy(*command, stream);
        tell_exit(*command);
      }
      if (command->input() == fd) write_input(*command);
    }
  }

  Carried* find(std::uint32_t id) {
    for (const auto& command : commands_) {
      if (command->id() == id) return command.get();
    }
    return nullptr;
  }

  // ---- to the server ----

  void send(Kind kind, std::string_view payload) {
    carrier::add_frame(out_, kind, payload);
    held_until_ = 0;
  }

  // It may wait for what follows it.
  void send_lazily(Kind kind, std::string_view payload) {
    if (out_.empty() && !direct_) held_until_ = now_us() + kHold;
    carrier::add_frame(out_, kind, payload);
    if (out_.size() > kMaxHeld) held_until_ = 0;
  }

  bool holds() const { return held_until_ != 0; }

  void flush() {
    if (holds() && now_us() < held_until_) return;
    held_until_ = 0;
    while (out_at_ < out_.size()) {
      const ssize_t n = ::write(STDOUT_FILENO, out_.data() + out_at_, out_.size() - out_at_);
      if (n > 0) {
        out_at_ += static_cast<std::size_t>(n);
      } else if (errno == EAGAIN) {
        break;
      } else if (errno != EINTR) {
        over_ = true;
        return;
      }
    }
    const bool waits = out_at_ < out_.size();
    if (!waits) {
      out_.clear();
      out_at_ = 0;
    }
    if (waits == writable_wanted_) return;
    writable_wanted_ = waits;
    if (waits) watch(STDOUT_FILENO, EPOLLOUT);
    if (!waits) ::epoll_ctl(epoll_, EPOLL_CTL_DEL, STDOUT_FILENO, nullptr);
  }

  void copy(Carried& command, int stream) {
    if (out_.size() - out_at_ >= kMaxOut) {
      paused_ = true;
      return;
    }
    const Copied copied = command.copy(stream);
    if (!copied.bytes.empty()) {
      Writer out;
      out.u32(command.id());
      out.u8(static_cast<std::uint8_t>(stream));
      out.u64(copied.offset);
      out.bytes(copied.bytes);
      if (holds())
        send_lazily(Kind::output, out.view());
      else
        send(Kind::output, out.view());
    }
    if (!copied.ended) return;
    Writer out;
    out.u32(command.id());
    out.u8(static_cast<std::uint8_t>(stream));
    send_lazily(Kind::output_end, out.view());
  }

  // All that it printed before its end comes before its end.
  void tell_exit(Carried& command) {
    if (command.exit.empty()) return;
    bool flushed = true;
    for (int stream = 0; stream < command.streams(); ++stream) {
      copy(command, stream);
      flushed = command.flushed(stream) && flushed;
    }
    if (!flushed && ++command.exit_rounds < kExitRounds) return;
    send(Kind::told, command.exit);
    command.exit.clear();
  }

  void resume() {
    paused_ = false;
    for (const auto& command : commands_) {
      for (int stream = 0; stream < command->streams(); ++stream) copy(*command, stream);
      tell_exit(*command);
    }
    flush();
  }

  // ---- from PID 1 ----

  void from_guest() {
    static char buffer[os::kMaxPacket];
    for (int budget = 64; budget > 0 && !over_; --budget) {
      os::Packet packet{buffer, sizeof buffer};
      const int result = os::receive_packet(guest_, packet);
      if (result < 0 && errno == EAGAIN) return;
      if (result <= 0) {
        over_ = true;
        return;
      }
      told({packet.data, packet.size}, packet);
    }
  }

  void told(std::string_view message, const os::Packet& packet) {
    Reader in{message};
    const auto type = static_cast<Message>(in.u8());
    if (type == Message::started) return told_started(message, in, packet);
    for (std::size_t i = 0; i < packet.fd_count; ++i) ::close(packet.fds[i]);
    if (type == Message::dropped) {
      Taken dropped;
      Carried* command = Taken::decode(in, dropped) ? find(dropped.id) : nullptr;
      if (!command) return;
      command->dropped(dropped.stream, dropped.offset);
      copy(*command, dropped.stream);
      drop(*command, dropped.stream);
      return tell_exit(*command);
    }
    if (type == Message::exited) {
      if (Carried* command = find(in.u32())) {
        command->exit = message;
        command->exit_rounds = 0;
        return tell_exit(*command);
      }
    }
    send(Kind::told, message);
  }

  void told_started(std::string_view message, Reader& in, const os::Packet& packet) {
    Started started;
    if (!Started::decode(in, started) || packet.fd_count != descriptors_of(started.streams)) {
      over_ = true;  // no room for descriptors: the next one of us may have it
      return;
    }
    commands_.push_back(std::make_unique<Carried>(started, packet.fds));
    Carried& command = *commands_.back();
    send_lazily(Kind::told, message);
    for (int stream = 0; stream < command.streams(); ++stream) {
      const bool both = command.source(stream) == command.input();
      watch(command.source(stream), EPOLLIN | EPOLLET | (both ? EPOLLOUT : 0u));
      copy(command, stream);
    }
    if (command.streams() == 2 && command.input() >= 0) watch(command.input(), EPOLLOUT | EPOLLET);
  }

  // ---- from the server ----

  void from_server() {
    static char buffer[256 << 10];
    const ssize_t n = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      over_ = true;
      return;
    }
    frames_.add({buffer, static_cast<std::size_t>(n)});
    Kind kind{};
    std::string_view payload;
    while (!over_ && frames_.next(kind, payload)) obey(kind, payload);
    if (frames_.broken()) over_ = true;
  }

  void obey(Kind kind, std::string_view payload) {
    if (kind == Kind::message) return pass_on(payload);
    Reader in{payload};
    if (files_.obey(kind, in)) return;
    Carried* command = find(in.u32());
    if (kind == Kind::input) {
      const std::string_view bytes = in.view();
      if (command) command->queue_input(bytes);
      if (command) write_input(*command);
    } else if (kind == Kind::resize && command) {
      const std::uint32_t rows = in.u32();
      command->resize(rows, in.u32());
    }
  }

  void write_input(Carried& command) {
    if (!command.input_waits()) return;
    bool closed = false;
    const std::size_t written = command.write(closed);
    if (written == 0 && !closed) return;
    Writer out;
    out.u32(command.id());
    out.u32(static_cast<std::uint32_t>(written));
    out.u8(closed ? 1 : 0);
    send(Kind::input_taken, out.view());
  }

  void drop(Carried& command, int stream) {
    Taken what;
    if (!command.begin_drop(stream, what)) return;
    Writer out;
    what.encode(out, Message::stored);
    tell_guest(out.view(), -1);
  }

  // What concerns descriptors concerns ours too.
  void pass_on(std::string_view message) {
    Reader in{message};
    const auto type = static_cast<Message>(in.u8());
    if (type == Message::stored) {
      Taken stored;
      Carried* command = Taken::decode(in, stored) ? find(stored.id) : nullptr;
      if (!command) return;
      command->stored(stored.stream, stored.offset);
      return drop(*command, stored.stream);
    }
    if (type == Message::close_input) {
      if (Carried* command = find(in.u32())) command->close_input();
    }
    tell_guest(message, -1);
    if (type != Message::release) return;
    const std::uint32_t id = in.u32();
    if (in.u8() & Release::kOutput) {
      std::erase_if(commands_, [id](const auto& command) { return command->id() == id; });
    }
  }

  // Waits while PID 1 is busy: it never waits for us.
  void tell_guest(std::string_view message, int fd) {
    int file = -1;
    const char by_file = static_cast<char>(Message::by_file);
    if (message.size() > kInlineMessage) {
      file = fd = ::memfd_create("message", MFD_CLOEXEC);
      if (::write(fd, message.data(), message.size()) != static_cast<ssize_t>(message.size())) {
        over_ = true;
      }
      message = {&by_file, 1};
    }
    int result;
    while ((result = os::send_packet(guest_, message, &fd, fd >= 0 ? 1 : 0)) == 0) {
      pollfd poll{guest_, POLLOUT, 0};
      ::poll(&poll, 1, -1);
    }
    if (result < 0) over_ = true;
    if (file >= 0) ::close(file);
  }

  static constexpr char kFiles[1] = {static_cast<char>(Message::files)};
  int guest_;
  bool direct_;
  int epoll_;
  bool over_ = false;
  bool paused_ = false;  // output waits until the server has taken what is there
  bool writable_wanted_ = false;
  std::uint64_t held_until_ = 0;  // not 0: what is in `out_` can wait until then
  std::string out_;
  std::size_t out_at_ = 0;
  carrier::Frames frames_;
  CarrierFiles files_;
  std::vector<std::unique_ptr<Carried>> commands_;
};

}  // namespace

int carry(const char* id) {
  ::signal(SIGPIPE, SIG_IGN);
  std::string name;
  std::string token;
  if (!read_begin(name, token)) return 1;
  const int guest = knock(id);
  if (guest < 0) {
    std::fprintf(stderr, "threadbox-guest: can't reach the box: %s\n", std::strerror(errno));
    return 1;
  }
  const bool direct = take_shortcut(name, token);
  static Carrier carrier{guest, direct};
  return carrier.run();
}

}  // namespace tb::guest
