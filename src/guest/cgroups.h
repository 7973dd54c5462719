// SPDX-License-Identifier: Apache-2.0
// A cgroup for each command, so that everything that it started can be ended at once; and the
// counters that tell which limits a command met.
#pragma once

#include <cstdint>
#include <vector>

#include "guest/wire.h"

namespace tb::guest {

// Making and removing a cgroup costs 0.1 ms, so an empty one is used again; but never after a
// cgroup.kill: since Linux 6.14 a process cloned into a cgroup that was killed before is killed
// at once (the kernel compares its kill sequence with the parent's cgroup's).
class CommandCgroups {
 public:
  explicit CommandCgroups(bool there);
  bool there() const { return there_; }
  // Whether nothing of the host's can be reached from a directory of one.
  bool can_be_given_away() const { return closed_; }
  // The index of an empty cgroup, or -1 (errno says why).
  int take();
  // Gives it back; it is used again once it is empty.
  void give(int index);
  int dir_fd(int index) const { return groups_[static_cast<std::size_t>(index)].dir; }
  // Ends every process in it. 0 or -1.
  int kill(int index);
  std::vector<int> processes(int index) const;
  // Moves a process of another one here. 0 or -1.
  int move(int index, int pid) const;
  // CPU time of all that was ever in it.
  std::uint64_t cpu_us(int index) const;
  // Sends a signal to every process in it.
  void signal_all(int index, int number);
  // Whether a process lives in any cgroup that was given back: what commands left behind.
  bool any_left_behind();
  // Whether one lives in any at all.
  bool any_populated() const;

 private:
  struct Group {
    int dir = -1;  // -1: none, the place is free
    int events = -1;
    unsigned number = 0;
    bool taken = false;
    bool killed = false;
  };
  static bool populated(const Group& group);
  int make();
  void retire_killed();

  bool there_;
  bool closed_ = false;
  unsigned next_ = 0;
  std::vector<Group> groups_;
};

class Counters {
 public:
  explicit Counters(const std::vector<Counter>& which);
  // Reads all; afterwards hits() and oom_kills() are those since the values in `before`.
  using Values = std::vector<std::uint64_t>;
  Values read() const;
  std::uint32_t hits(const Values& before, const Values& now) const;
  std::uint64_t oom_kills(const Values& before, const Values& now) const;

 private:
  struct Source {
    Counter counter;
    int fd;
  };
  std::vector<Source> sources_;
};

// Whether the writable tree has no room left.
bool disk_is_full();

}  // namespace tb::guest
