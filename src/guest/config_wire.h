// SPDX-License-Identifier: Apache-2.0
// What the keeper tells PID 1 before it begins: guest/wire.h, kConfigFd.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/codec.h"

namespace tb::guest {

// Bumped when a message changes: a server refuses guests of another version and says so.
constexpr std::uint32_t kVersion = 6;

// A number in a cgroup file that says how often a limit was met.
struct Counter {
  std::uint32_t limit = 0;  // kHit…
  std::int32_t dir_fd = 0;  // kCgroupFd or kCounterFd + n
  std::string file;
  std::string key;       // the line's first word; empty: the file is one number
  std::uint8_t oom = 0;  // counts kills by the out-of-memory killer
};

// What the keeper tells every guest of one environment; sealed, so that all share its pages.
struct Config {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint8_t command_cgroups = 0;  // kCgroupFd is there
  std::uint8_t disk_check = 0;       // kDiskFd is there
  std::string base_filter;           // sock_filter arrays for PID 1 and all commands
  std::string value_filter;
  std::string command_filter;            // and one on top for commands
  std::vector<std::string> write_paths;  // Landlock: nothing else can be written to
  std::vector<Counter> counters;
  std::uint8_t confined = 0;            // only these can be read, and only those executed:
  std::vector<std::string> read_paths;  // files, and directories with all below
  std::vector<std::string> run_paths;   // files
  // Never told: in a container the engine has set the barriers, and there is no keeper.
  bool in_container = false;

  void encode(Writer& out) const {
    out.u32(kVersion);
    out.u32(uid);
    out.u32(gid);
    out.u8(command_cgroups);
    out.u8(disk_check);
    out.bytes(base_filter);
    out.bytes(value_filter);
    out.bytes(command_filter);
    out.list(write_paths);
    out.u32(static_cast<std::uint32_t>(counters.size()));
    for (const Counter& counter : counters) {
      out.u32(counter.limit);
      out.i32(counter.dir_fd);
      out.bytes(counter.file);
      out.bytes(counter.key);
      out.u8(counter.oom);
    }
    out.u8(confined);
    out.list(read_paths);
    out.list(run_paths);
  }
  static bool decode(Reader& in, Config& to) {
    if (in.u32() != kVersion) return false;
    to.uid = in.u32();
    to.gid = in.u32();
    to.command_cgroups = in.u8();
    to.disk_check = in.u8();
    to.base_filter = in.bytes();
    to.value_filter = in.bytes();
    to.command_filter = in.bytes();
    to.write_paths = in.list();
    const std::uint32_t count = in.u32();
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      Counter counter;
      counter.limit = in.u32();
      counter.dir_fd = in.i32();
      counter.file = in.bytes();
      counter.key = in.bytes();
      counter.oom = in.u8();
      to.counters.push_back(counter);
    }
    to.confined = in.u8();
    to.read_paths = in.list();
    to.run_paths = in.list();
    return in.done();
  }
};

}  // namespace tb::guest
