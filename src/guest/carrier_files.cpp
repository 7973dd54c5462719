// SPDX-License-Identifier: Apache-2.0
#include "guest/carrier_files.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "guest/operations_wire.h"
#include "os/fdpass.h"

namespace tb::guest {
namespace {

using carrier::Kind;

constexpr std::size_t kMaxChannels = 256;

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

carrier::FileState state_of(int fd) {
  struct stat info{};
  ::fstat(fd, &info);
  carrier::FileState state;
  state.mode = info.st_mode;
  state.size = static_cast<std::uint64_t>(info.st_size);
  state.version = files::version_of(info);
  return state;
}

}  // namespace

bool CarrierFiles::obey(Kind kind, Reader& in) {
  if (kind < Kind::file_open || kind > Kind::file_shut) return false;
  const std::uint32_t id = in.u32();
  if (kind == Kind::file_open) {
    open(id);
    return true;
  }
  const auto found = channels_.find(id);
  if (found == channels_.end()) {
    if (kind != Kind::file_close) end(id);
    return true;
  }
  Channel& channel = found->second;
  if (kind == Kind::file_ask) {
    ask(id, in.view());
  } else if (kind == Kind::file_read) {
    const std::uint64_t offset = in.u64();
    read(id, offset, in.u32());
  } else if (kind == Kind::file_write) {
    write(id, in.view());
  } else if (kind == Kind::file_take) {
    channel.wanted = std::min<std::size_t>(in.u32(), carrier::kChunk);
    take(id, channel);
  } else if (kind == Kind::file_give) {
    channel.given = in.view();
    give(id, channel);
  } else if (kind == Kind::file_shut) {
    shut(channel);
  } else {
    shut(channel);
    close_fd(channel.socket);
    channels_.erase(found);
  }
  return true;
}

void CarrierFiles::open(std::uint32_t id) {
  int ends[2];
  if (channels_.size() >= kMaxChannels || channels_.contains(id) ||
      ::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return end(id);
  }
  channels_[id].socket = ends[0];
  doors_.watch(ends[0], EPOLLIN);
  doors_.pass(ends[1]);
  ::close(ends[1]);
}

void CarrierFiles::ask(std::uint32_t id, std::string_view request) {
  const auto found = channels_.find(id);
  if (found == channels_.end() || os::send_packet(found->second.socket, request) != 1) end(id);
}

void CarrierFiles::read(std::uint32_t id, std::uint64_t offset, std::uint32_t size) {
  const auto found = channels_.find(id);
  if (found == channels_.end()) return end(id);
  std::string buffer(std::min<std::size_t>(size, carrier::kChunk), '\0');
  const ssize_t n =
      ::pread(found->second.file, buffer.data(), buffer.size(), static_cast<off_t>(offset));
  Writer out;
  out.u32(id);
  out.i32(n < 0 ? errno : 0);
  out.bytes(std::string_view{buffer}.substr(0, n < 0 ? 0 : static_cast<std::size_t>(n)));
  doors_.send(Kind::file_data, out.view());
}

void CarrierFiles::write(std::uint32_t id, std::string_view bytes) {
  const auto found = channels_.find(id);
  if (found == channels_.end()) return end(id);
  int failed = 0;
  while (failed == 0 && !bytes.empty()) {
    const ssize_t n = ::write(found->second.file, bytes.data(), bytes.size());
    if (n > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      failed = errno;
    }
  }
  tell_written(id, failed);
}

void CarrierFiles::tell_written(std::uint32_t id, int failed) {
  Writer out;
  out.u32(id);
  out.i32(failed);
  doors_.send(Kind::file_written, out.view());
}

// It need not wait: its end of the pipe is its own.
void CarrierFiles::wait_for_pipe(Channel& channel, unsigned events) {
  if (channel.waits == (events != 0)) return;
  channel.waits = events != 0;
  doors_.watch(channel.file, events);
}

void CarrierFiles::take(std::uint32_t id, Channel& channel) {
  std::string buffer(channel.wanted, '\0');
  const ssize_t n = ::read(channel.file, buffer.data(), buffer.size());
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return wait_for_pipe(channel, EPOLLIN);
  const int failed = n < 0 ? errno : 0;
  channel.wanted = 0;
  wait_for_pipe(channel, 0);
  Writer out;
  out.u32(id);
  out.i32(failed);
  out.bytes(std::string_view{buffer}.substr(0, failed ? 0 : static_cast<std::size_t>(n)));
  doors_.send(Kind::file_data, out.view());
}

void CarrierFiles::give(std::uint32_t id, Channel& channel) {
  std::size_t done = 0;
  int failed = 0;
  while (failed == 0 && done < channel.given.size()) {
    const ssize_t n =
        ::write(channel.file, channel.given.data() + done, channel.given.size() - done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      failed = errno;
    }
  }
  channel.given.erase(0, done);
  if (failed == EAGAIN) return wait_for_pipe(channel, EPOLLOUT);
  channel.given.clear();
  wait_for_pipe(channel, 0);
  tell_written(id, failed);
}

void CarrierFiles::shut(Channel& channel) {
  if (channel.waits) wait_for_pipe(channel, 0);
  close_fd(channel.file);
}

bool CarrierFiles::on_ready(int fd) {
  for (auto& [id, channel] : channels_) {
    if (channel.socket == fd) {
      answer(id, channel);
    } else if (channel.file != fd) {
      continue;
    } else if (!channel.given.empty()) {
      give(id, channel);
    } else {
      take(id, channel);
    }
    return true;
  }
  return false;
}

void CarrierFiles::answer(std::uint32_t id, Channel& channel) {
  static char buffer[os::kMaxPacket];
  for (;;) {
    os::Packet packet{buffer, sizeof buffer};
    const int result = os::receive_packet(channel.socket, packet);
    if (result < 0 && errno == EAGAIN) return;
    if (result <= 0) return end(id);
    const bool file = packet.fd_count > 0;
    for (std::size_t i = 1; i < packet.fd_count; ++i) ::close(packet.fds[i]);
    if (file) {
      shut(channel);
      channel.file = packet.fds[0];
      // Of a pipe; to a regular file it means nothing.
      ::fcntl(channel.file, F_SETFL, ::fcntl(channel.file, F_GETFL) | O_NONBLOCK);
    }
    Writer out;
    out.u32(id);
    out.u8(file ? 1 : 0);
    (file ? state_of(channel.file) : carrier::FileState{}).encode(out);
    out.bytes({packet.data, packet.size});
    doors_.send(Kind::file_answer, out.view());
  }
}

// The file stays as long as the server wants it: a helper that is gone has done its work, or not.
void CarrierFiles::end(std::uint32_t id) {
  const auto found = channels_.find(id);
  if (found != channels_.end()) close_fd(found->second.socket);
  Writer out;
  out.u32(id);
  doors_.send(Kind::file_ended, out.view());
}

}  // namespace tb::guest
