// SPDX-License-Identifier: Apache-2.0
// The standard streams of a command: pipes, or a terminal.
#pragma once

#include "guest/wire.h"

namespace tb::guest {

struct Ends {
  Streams kind = Streams::output;
  // Passed to the server in the order of `Streams`, and kept for the next one: what is in them
  // outlives any server.
  int ours[3] = {-1, -1, -1};
  int child[3] = {-1, -1, -1};  // become 0, 1 and 2
  // Bytes of both streams that are dropped: a carrier's server has stored them.
  std::uint64_t taken[2] = {0, 0};
  int slave = -1;  // of a terminal: as long as we hold it, the master sees no end

  Ends() = default;
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  ~Ends();

  // Once the command has its copies.
  void close_child();
  // Nothing more can be written to it. A terminal stays: it is where its output comes from.
  void close_input();
  // Takes everything before `offset` out of a stream's pipe.
  void drop_output(int stream, std::uint64_t offset);
  // The command has ended: its input, and what kept its terminal from ending with it.
  void command_ended();
};

// Never waits. Returns the step that failed, with errno, or nullptr.
const char* open_streams(const Start& start, const Config& config, Ends& to);

}  // namespace tb::guest
