// SPDX-License-Identifier: Apache-2.0
#include "guest/streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "guest/input.h"
#include "guest/terminal.h"

namespace tb::guest {
namespace {

void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

const char* open_output(Ends& to, bool shared) {
  for (int i = 0; i < 2; ++i) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return "make pipes";
    to.ours[i] = ends[0];
    to.child[i + 1] = ends[1];
    // We read from it ourselves then, and never wait.
    if (shared && ::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return "make pipes";
  }
  return nullptr;
}

// Our end never blocks, neither here nor in the server, which shares its flags.
const char* open_input_pipe(Ends& to) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "make pipes";
  to.kind = Streams::open;
  to.child[0] = ends[0];
  to.ours[2] = ends[1];
  return ::fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0 ? nullptr : "make pipes";
}

// The pipe is a halfway house for the server: it moves bytes from the terminal into it and from it
// into a file, each in one system call, so that there is no moment in which it alone has them.
const char* open_terminal_streams(const Start& start, const Config& config, Ends& to) {
  to.kind = Streams::terminal;
  Terminal terminal;
  const char* failed = open_terminal(start, config, terminal);
  to.ours[0] = terminal.master;
  to.slave = terminal.slave;
  if (failed) return failed;
  for (int& fd : to.child) fd = terminal.slave;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return "make pipes";
  to.ours[1] = ends[0];
  to.ours[2] = ends[1];
  return nullptr;
}

}  // namespace

Ends::~Ends() {
  close_child();
  close_fd(slave);
  for (int& fd : ours) close_fd(fd);
}

void Ends::close_child() {
  for (int& fd : child) {
    if (fd == slave) fd = -1;
    close_fd(fd);
  }
}

void Ends::close_input() {
  if (kind != Streams::open) return;
  close_fd(ours[2]);
  kind = Streams::output;
}

// Never waits: a command can read from its own stdout and so take bytes away before us. It fools
// nobody but its own reader.
void Ends::drop_output(int stream, std::uint64_t offset) {
  const int pipe = kind == Streams::terminal ? ours[1] : ours[stream];
  char buffer[16 << 10];
  while (pipe >= 0 && taken[stream] < offset) {
    const std::size_t most = std::min<std::uint64_t>(offset - taken[stream], sizeof buffer);
    const ssize_t n = ::read(pipe, buffer, most);
    if (n <= 0) break;
    taken[stream] += static_cast<std::uint64_t>(n);
  }
  taken[stream] = std::max(taken[stream], offset);
}

void Ends::command_ended() {
  close_input();
  close_fd(slave);
}

const char* open_streams(const Start& start, const Config& config, Ends& to) {
  if (start.terminal) return open_terminal_streams(start, config, to);
  if (const char* failed = open_output(to, config.in_container)) return failed;
  if (start.input_mode == InputMode::open) return open_input_pipe(to);
  to.child[0] = open_input(start.input, config.confined);
  return to.child[0] < 0 ? "provide stdin" : nullptr;
}

}  // namespace tb::guest
