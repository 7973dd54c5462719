// SPDX-License-Identifier: Apache-2.0
// The streams of one command, as a carrier holds them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "guest/container_wire.h"

namespace tb::guest {

// What was copied out of a stream.
struct Copied {
  std::uint64_t offset = 0;
  std::string bytes;
  bool ended = false;  // nobody has it open any more, and all of it is copied
};

class Carried {
 public:
  // Takes the descriptors that `started` says.
  Carried(const Started& started, const int* fds);
  Carried(const Carried&) = delete;
  Carried& operator=(const Carried&) = delete;
  ~Carried();

  std::uint32_t id() const { return id_; }
  // The ones to be waited for, or -1; edges only: what is copied stays readable.
  int source(int stream) const { return ended_[stream] ? -1 : fds_[stream == 1 ? 1 : 0]; }
  int input() const { return terminal_ ? fds_[0] : fds_[2]; }
  int streams() const { return terminal_ ? 1 : 2; }

  // What is new in a stream. It stays in the pipe.
  Copied copy(int stream);
  // Whether all that was printed until now is copied.
  bool flushed(int stream);
  // The server has stored that much: PID 1 is to drop it, and nothing is copied until it did.
  // False: it is busy with an earlier part, or there is nothing to drop.
  void stored(int stream, std::uint64_t offset) { stored_[stream] = offset; }
  bool begin_drop(int stream, Taken& what);
  void dropped(int stream, std::uint64_t offset);

  // Writes what the pipe takes of what is queued; how many bytes that were. `closed`: nobody
  // reads it.
  std::size_t write(bool& closed);
  void queue_input(std::string_view bytes) { input_.append(bytes); }
  bool input_waits() const { return !input_.empty(); }
  void close_input();
  void resize(unsigned rows, unsigned columns) const;

  // How it ended, told once its output is.
  std::string exit;
  int exit_rounds = 0;

 private:
  int pipe(int stream) const { return terminal_ ? fds_[1] : fds_[stream]; }
  bool feed();

  std::uint32_t id_;
  bool terminal_;
  int fds_[3] = {-1, -1, -1};
  std::uint64_t dropped_[2];  // where the pipe's content begins
  std::uint64_t sent_[2];
  std::uint64_t stored_[2] = {0, 0};
  bool ended_[2] = {false, false};
  bool dropping_[2] = {false, false};
  bool hung_up_ = false;  // the terminal
  std::string input_;
};

}  // namespace tb::guest
