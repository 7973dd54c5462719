// SPDX-License-Identifier: Apache-2.0
#include "native/file_link.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "guest/operations_wire.h"
#include "native/write_behind.h"
#include "os/fdpass.h"

namespace tb::native {
namespace {

using box::HelperFile;
using Descriptor = asio::posix::stream_descriptor;

// In one go, however fast it is read: others wait for the disk's threads.
constexpr std::uint64_t kMostSent = 2 << 20;

// Whoever wants no more of a pipe is an answer (EPIPE), not our end.
void ignore_sigpipe() {
  static const auto before = ::signal(SIGPIPE, SIG_IGN);
  (void)before;
}

awaitable<bool> ready(Descriptor& descriptor, Descriptor::wait_type what) {
  co_await descriptor.async_wait(what, asio::as_tuple(asio::use_awaitable));
  co_return true;
}

// Empty: it has ended, or the socket has.
std::optional<std::size_t> send_file(int socket, int file, std::uint64_t offset, std::size_t most) {
  auto at = static_cast<off_t>(offset);
  const ssize_t sent = ::sendfile(socket, file, &at, most);
  if (sent > 0) return static_cast<std::size_t>(sent);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return std::nullopt;
}

class PassedFile : public HelperFile {
 public:
  PassedFile(asio::any_io_executor executor, asio::thread_pool& disk, os::Fd fd)
      : disk_(disk), fd_(std::move(fd)), pipe_(executor) {}

  State state() override {
    struct stat info{};
    if (::fstat(fd_.get(), &info) != 0) return {};
    return {S_ISREG(info.st_mode), static_cast<std::uint64_t>(info.st_size),
            guest::files::version_of(info)};
  }

  awaitable<std::size_t> read(std::uint64_t offset, std::span<char> out) override {
    iovec target{out.data(), out.size()};
    // What is in memory comes at once; only a disk is worth another thread.
    ssize_t got = ::preadv2(fd_.get(), &target, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    if (got < 0) {
      auto work = [fd = fd_.get(), out, offset] {
        return ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset));
      };
      got = co_await on_pool(disk_, work);
    }
    if (got < 0) throw Error{Code::internal, "read a file of a sandbox"};
    co_return static_cast<std::size_t>(got);
  }

  // Nothing tells in advance whether it will wait for a disk.
  awaitable<std::optional<std::size_t>> send(int socket, std::uint64_t offset,
                                             std::uint64_t most) override {
    ignore_sigpipe();
    auto work = [fd = fd_.get(), socket, offset, size = std::min(most, kMostSent)] {
      return send_file(socket, fd, offset, size);
    };
    co_return co_await on_pool(disk_, work);
  }

  awaitable<int> write(std::string_view bytes) override {
    if (!writer_) writer_.emplace(pipe_.get_executor(), disk_, std::move(fd_));
    return writer_->write(bytes);
  }

  awaitable<int> flush() override {
    if (!writer_) co_return 0;
    co_return co_await writer_->flush();
  }

  awaitable<std::size_t> take(std::span<char> out) override {
    open_pipe();
    for (;;) {
      const ssize_t got = ::read(pipe_.native_handle(), out.data(), out.size());
      if (got >= 0) co_return static_cast<std::size_t>(got);
      if (errno == EINTR) continue;
      if (errno != EAGAIN) throw SystemError{errno, "read an archive"};
      co_await wait(Descriptor::wait_read);
    }
  }

  awaitable<bool> give(std::string_view bytes) override {
    ignore_sigpipe();
    open_pipe();
    while (!bytes.empty()) {
      const ssize_t put = ::write(pipe_.native_handle(), bytes.data(), bytes.size());
      if (put > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(put));
      } else if (errno == EPIPE) {
        co_return false;
      } else if (errno == EAGAIN) {
        co_await wait(Descriptor::wait_write);
      } else if (errno != EINTR) {
        throw SystemError{errno, "write an archive"};
      }
    }
    co_return true;
  }

  void close() override {
    boost::system::error_code ignored;
    pipe_.close(ignored);
    fd_.reset();
  }

 private:
  void open_pipe() {
    if (!fd_) return;
    os::set_nonblocking(fd_);
    pipe_.assign(fd_.release());
  }

  awaitable<void> wait(Descriptor::wait_type what) {
    const auto came = co_await within(box::kPipeStall, ready(pipe_, what));
    if (!came) throw box::HelperLink::stalled();
  }

  asio::thread_pool& disk_;
  os::Fd fd_;                          // of a file
  std::optional<WriteBehind> writer_;  // has it from the first write on
  Descriptor pipe_;                    // of what is used as one, from its first use on
};

// Our end of a helper's socket. Closing it ends the helper.
class SocketLink : public box::HelperLink {
 public:
  SocketLink(asio::any_io_executor executor, asio::thread_pool& disk, os::Fd socket)
      : disk_(disk), socket_(executor, socket.release()) {}

  void say(std::string packet) override {
    if (os::send_packet(socket_.native_handle(), packet) != 1) throw ended();
  }

  awaitable<Heard> hear(Milliseconds limit) override {
    static thread_local char buffer[os::kMaxPacket];
    for (;;) {
      os::Packet packet{buffer, sizeof buffer};
      const int result = os::receive_packet(socket_.native_handle(), packet);
      if (result == 1) {
        Heard heard;
        heard.packet.assign(packet.data, packet.size);
        for (std::size_t i = 1; i < packet.fd_count; ++i) ::close(packet.fds[i]);
        if (packet.fd_count == 0) co_return heard;
        os::Fd passed{packet.fds[0]};
        heard.file = std::make_unique<PassedFile>(socket_.get_executor(), disk_, std::move(passed));
        co_return heard;
      }
      if (result == 0 || errno != EAGAIN) throw ended();
      const auto something = co_await within(limit, ready(socket_, Descriptor::wait_read));
      if (!something) throw silent();
    }
  }

  // The descriptor is ours; the helper can go.
  void opened() override {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

 private:
  asio::thread_pool& disk_;
  Descriptor socket_;
};

}  // namespace

std::unique_ptr<box::HelperLink> connect_helper(asio::any_io_executor executor,
                                                asio::thread_pool& disk, const PassSocket& pass) {
  int ends[2];
  check(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), "socketpair");
  os::Fd ours{ends[0]};
  os::Fd theirs{ends[1]};
  // Only our end: the helper waits in the kernel for each request, and on a slow reader.
  check(::fcntl(ours.get(), F_SETFL, O_NONBLOCK), "fcntl");
  if (!pass(std::move(theirs))) throw Error{Code::unavailable, "the sandbox is gone"};
  return std::make_unique<SocketLink>(executor, disk, std::move(ours));
}

}  // namespace tb::native
