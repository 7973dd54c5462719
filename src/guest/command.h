// SPDX-License-Identifier: Apache-2.0
// What PID 1 knows of a command, of a shell, or of a run in a shell, until the server knows it too.
#pragma once

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guest/cgroups.h"
#include "guest/clock.h"
#include "guest/minder.h"
#include "guest/shell.h"
#include "guest/streams.h"
#include "guest/wire.h"

namespace tb::guest {

inline bool contains(const std::vector<int>& list, int pid) {
  return std::find(list.begin(), list.end(), pid) != list.end();
}

inline void close_fd(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

// Most commands are over sooner: until then nobody is told that they run, which would cost each of
// them a wake-up of the server's. In microseconds.
constexpr std::uint64_t kShort = 4000;

struct Command {
  std::uint32_t id = 0;
  int pid = -1;
  int cgroup = -1;
  int status = -1;  // tells when the program runs
  bool running = false;
  std::uint64_t quiet_us = 0;  // until then it is told only with its end
  Minder minder;               // without cgroups
  int offer = -1;              // to a shell that was started ahead, until it has taken this command
  bool waited = false;         // it has said that it waits
  bool copied = false;         // it is a copy: who it is, it tells
  std::uint64_t look_us = 0;   // when to look whether it has
  std::unique_ptr<Start> again;  // what was offered
  Ends ends;
  std::string note;
  std::uint64_t began_us = 0;
  std::uint64_t deadline_us = 0;  // 0: none
  Cause ended_by = Cause::exited;
  Counters::Values counts;
  std::optional<Exited> exit;
  std::optional<Failure> failure;
  bool start_told = false;
  bool end_told = false;
  bool exit_released = false;
  bool output_released = false;
  std::unique_ptr<Shell> shell;  // it is one
  std::uint32_t in_shell = 0;    // it is a run: of this one, and its processes are that one's

  ~Command() {
    close_fd(status);
    close_fd(offer);
    close_fd(minder.reports);
  }
};

// A shell that can't be opened again is one that has ended, not one that never was.
inline bool opened_before(const Command& command) {
  return command.shell && command.shell->state.generation > 1;
}

}  // namespace tb::guest
