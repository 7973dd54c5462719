// SPDX-License-Identifier: Apache-2.0
// A bash that waits for commands, and keeps between them what they changed in it. It is told what
// to do on a socket that is its stdin and says how that went on another; each run has its text in a
// file and its output in pipes of its own, which have names for so long that bash can open them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "guest/streams.h"
#include "guest/wire.h"

namespace tb::guest {

// Of a run, and how far it has come; see interrupts.cpp.
struct Interrupt {
  int rounds = 0;             // that are left
  std::vector<int> had_it;    // programs that must not have it twice
  std::vector<int> starting;  // copies of the shell that were there when it came to it
  bool shell_came = false;    // it has
  std::uint64_t since_us = 0;
  std::uint64_t ticks = 0;  // of the shell's processor time: then it has come to it
};

struct Shell {
  Start start;               // how it is opened, the first time and again
  ShellState state;          // as it is told
  bool told = false;         // what `state` says
  std::string place;         // the directory of its files
  int feed = -1;             // to its stdin
  int words = -1;            // from its stderr
  std::string heard;         // up to the end of the last whole word
  int snapshot = -1;         // the newest that is whole: 0 or 1
  bool alive = false;        // its leader is
  std::vector<int> older;    // processes that were there when the run began
  std::int64_t cpu_us = 0;   // of its cgroup when the run began
  std::vector<int> minders;  // of earlier generations

  // ---- of the run at work ----
  std::vector<std::string> nonces;  // any ends the run; the last one does in any case
  bool ending = false;              // by force
  std::optional<int> answer;        // the status that it told first
  Interrupt interrupt;              // the last one
  std::uint64_t next_us = 0;        // when to look after it again
  std::uint64_t last_us = 0;        // when to give it up
  std::uint64_t silent_us = 0;      // since when it has taken all, and should have answered

  Shell() = default;
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;
  ~Shell();

  void close_sockets();
};

// What it said: how a run ended.
struct RunEnd {
  bool any = false;
  int code = 0;
  bool synchronous = false;  // nothing that was sent to it before is still to come
  bool restricted = false;   // set -r: it can't run anything for us any more
};

// All return the step that failed, with errno, or nullptr.
const char* make_place(Shell& shell);
// Makes its sockets; `child` become its stdin, stdout and stderr.
const char* open_sockets(Shell& shell, int child[3]);
// The files and pipes of a run.
const char* place_run(const Shell& shell, const Start& run, Ends& ends);

void remove_run(const Shell& shell, std::uint32_t run);
void remove_place(Shell& shell);

// False: it does not read.
bool feed_opening(Shell& shell);
bool feed_run(Shell& shell, std::uint32_t run);
// Asks once more for the end of the run, after something that may have cost it the first question.
bool feed_question(Shell& shell);
// The next run finds `code` as $?.
bool feed_snapshot(Shell& shell, int code);
// It has taken all that it was told.
bool has_read_all(const Shell& shell);

// Reads what it says; only the process `leader` itself is believed.
RunEnd listen(Shell& shell, int leader);

}  // namespace tb::guest
