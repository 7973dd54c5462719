// SPDX-License-Identifier: Apache-2.0
#include "guest/carried.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tb::guest {
namespace {

constexpr std::size_t kScratch = 1 << 20;

// tee(2) wants a pipe to copy into. One for all: it is emptied at once.
struct Scratch {
  int ends[2] = {-1, -1};
  std::string buffer;
  Scratch() : buffer(kScratch, '\0') {
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) ::fcntl(ends[1], F_SETPIPE_SZ, kScratch);
  }
};

Scratch& scratch() {
  static Scratch one;
  return one;
}

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

}  // namespace

Carried::Carried(const Started& started, const int* fds)
    : id_(started.id),
      terminal_(started.streams == Streams::terminal),
      dropped_{started.taken[0], started.taken[1]},
      sent_{started.taken[0], started.taken[1]} {
  std::copy_n(fds, descriptors_of(started.streams), fds_);
  if (terminal_) ended_[1] = true;
}

Carried::~Carried() {
  for (int& fd : fds_) close_fd(fd);
}

// From the terminal into PID 1's pipe, in one step: there is no moment in which we alone have it.
// True: there may be more than the pipe has room for.
bool Carried::feed() {
  constexpr std::size_t kFeed = 16 << 10;
  while (!hung_up_) {
    const ssize_t n = ::splice(fds_[0], nullptr, fds_[2], nullptr, kFeed, SPLICE_F_NONBLOCK);
    if (n > 0 || (n < 0 && errno == EINTR)) continue;
    if (n < 0 && errno == EAGAIN) break;
    hung_up_ = true;
  }
  pollfd polls[2] = {{fds_[0], POLLIN, 0}, {fds_[2], POLLOUT, 0}};
  ::poll(polls, 2, 0);
  return !hung_up_ && (polls[0].revents & POLLIN) && !(polls[1].revents & POLLOUT);
}

Copied Carried::copy(int stream) {
  Copied copied;
  copied.offset = sent_[stream];
  if (ended_[stream] || dropping_[stream]) return copied;
  if (terminal_) feed();
  // Asked before: what comes between the two is seen by the next one.
  pollfd poll{pipe(stream), POLLIN, 0};
  ::poll(&poll, 1, 0);
  Scratch& to = scratch();
  const ssize_t n = ::tee(pipe(stream), to.ends[1], kScratch, SPLICE_F_NONBLOCK);
  const std::uint64_t known = sent_[stream] - dropped_[stream];
  if (n > 0) {
    std::size_t done = 0;
    while (done < static_cast<std::size_t>(n)) {
      const ssize_t got = ::read(to.ends[0], to.buffer.data() + done, to.buffer.size() - done);
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    if (done > known) copied.bytes.assign(to.buffer, known, done - known);
    sent_[stream] += copied.bytes.size();
  }
  const bool no_writer = terminal_ ? hung_up_ : (poll.revents & POLLHUP) != 0;
  if (no_writer && flushed(stream)) copied.ended = ended_[stream] = true;
  return copied;
}

bool Carried::flushed(int stream) {
  if (ended_[stream]) return true;
  if (dropping_[stream] || (terminal_ && feed())) return false;
  int waiting = 0;
  if (::ioctl(pipe(stream), FIONREAD, &waiting) != 0) return true;
  return static_cast<std::uint64_t>(waiting) <= sent_[stream] - dropped_[stream];
}

bool Carried::begin_drop(int stream, Taken& what) {
  const std::uint64_t offset = std::min(stored_[stream], sent_[stream]);
  if (dropping_[stream] || offset <= dropped_[stream]) return false;
  dropping_[stream] = true;
  what = {id_, static_cast<std::uint8_t>(stream), offset};
  return true;
}

void Carried::dropped(int stream, std::uint64_t offset) {
  dropping_[stream] = false;
  dropped_[stream] = std::max(dropped_[stream], offset);
  sent_[stream] = std::max(sent_[stream], dropped_[stream]);
}

std::size_t Carried::write(bool& closed) {
  std::size_t done = 0;
  const int fd = input();
  closed = fd < 0;
  while (!closed && done < input_.size()) {
    const ssize_t n = ::write(fd, input_.data() + done, input_.size() - done);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (n < 0 && errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      closed = true;
    }
  }
  input_.erase(0, closed ? input_.size() : done);
  return done;
}

void Carried::close_input() {
  if (!terminal_) close_fd(fds_[2]);
}

void Carried::resize(unsigned rows, unsigned columns) const {
  winsize size{};
  size.ws_row = static_cast<unsigned short>(rows);
  size.ws_col = static_cast<unsigned short>(columns);
  if (terminal_) ::ioctl(fds_[0], TIOCSWINSZ, &size);
}

}  // namespace tb::guest
