// SPDX-License-Identifier: Apache-2.0
// What the server and PID 1 of a sandbox say to each other (docs/formats/guest.md).
// One message is one packet: a type byte, then fields in the order of the structs. No exceptions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/codec.h"
#include "guest/config_wire.h"

namespace tb::guest {

// Where the jail leaves the guest's descriptors before it executes it.
constexpr int kControlFd = 3;   // to the server
constexpr int kKeeperFd = 4;    // to the keeper: end of file means that the keeper is gone
constexpr int kConfigFd = 5;    // a sealed Config
constexpr int kCgroupFd = 6;    // the sandbox's unified cgroup, parent of the commands' ones
constexpr int kDiskFd = 7;      // the top of the writable tree, to see whether it is full
constexpr int kWaiterFd = 8;    // for shells that are started ahead: a builtin,
constexpr int kOpeningFd = 9;   // and the text that loads it
constexpr int kCounterFd = 10;  // this and following: directories of the limits' counters

enum class Message : std::uint8_t {
  // server to guest
  start = 1,
  by_file = 2,  // the message is in the passed memfd: too large for a packet
  signal = 3,
  release = 4,
  files = 5,  // passes a socket: a file helper (guest/files_wire.h) is to answer on it
  close_input = 6,
  lease = 7,   // where there is no keeper: how long PID 1 goes on without another one
  stored = 8,  // through a carrier: output that need not be kept in the pipe any more
  expect = 9,  // guest/expect_wire.h
  // guest to server
  ready = 64,
  jail_failed = 65,
  started = 66,  // passes the ends of the streams: Started::streams
  start_failed = 67,
  exited = 68,
  shell = 69,
  dropped = 70,  // to the carrier: what it said was stored is out of the pipe
  both = 71,     // started and exited in one packet
};

// Why a command ended, as the guest knows it.
enum class Cause : std::uint8_t { exited = 0, signal = 1, timeout = 2, oom = 3, killed = 4 };

// Limits whose counters moved while a command ran: bits of Exited::limits_hit.
constexpr std::uint32_t kHitMemory = 1;
constexpr std::uint32_t kHitPids = 2;
constexpr std::uint32_t kHitCpu = 4;
constexpr std::uint32_t kHitDisk = 8;

// Of stdin: Start::input is all of it, or it is a pipe that the server writes to and closes.
enum class InputMode : std::uint8_t { whole = 0, open = 1 };

enum class Kind : std::uint8_t {
  command = 0,
  shell = 1,  // a bash that waits for runs; argv and script are not used
  run = 2,    // a script that a shell runs
};

struct Start {
  std::uint32_t id = 0;
  Kind kind = Kind::command;
  std::uint32_t shell = 0;       // of a run
  std::uint64_t timeout_ms = 0;  // 0: none
  std::string cwd;
  std::vector<std::string> argv;
  std::vector<std::string> env;
  std::string script;  // when not empty: bash runs this text, and argv is not used
  std::string input;   // all of stdin; empty: /dev/null
  InputMode input_mode = InputMode::whole;
  std::uint8_t terminal = 0;  // stdin, stdout and stderr are one; of this size:
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  std::uint32_t ahead_ms = 0;  // so long the shell for the next one waits, started ahead; 0: none
  std::string note;            // told again with `started`; means nothing to the guest

  void encode(Writer& out) const {
    out.u8(static_cast<std::uint8_t>(Message::start));
    out.u32(id);
    out.u8(static_cast<std::uint8_t>(kind));
    out.u32(shell);
    out.u64(timeout_ms);
    out.bytes(cwd);
    out.list(argv);
    out.list(env);
    out.bytes(script);
    out.bytes(input);
    out.u8(static_cast<std::uint8_t>(input_mode));
    out.u8(terminal);
    out.u32(rows);
    out.u32(columns);
    out.u32(ahead_ms);
    out.bytes(note);
  }
  static bool decode(Reader& in, Start& to) {
    to.id = in.u32();
    to.kind = static_cast<Kind>(in.u8());
    to.shell = in.u32();
    to.timeout_ms = in.u64();
    to.cwd = in.bytes();
    to.argv = in.list();
    to.env = in.list();
    to.script = in.bytes();
    to.input = in.bytes();
    to.input_mode = static_cast<InputMode>(in.u8());
    to.terminal = in.u8();
    to.rows = in.u32();
    to.columns = in.u32();
    to.ahead_ms = in.u32();
    to.note = in.bytes();
    const bool text = !to.script.empty() || (!to.argv.empty() && to.kind == Kind::command);
    return in.done() && to.kind <= Kind::run && (text || to.kind == Kind::shell) &&
           to.input_mode <= InputMode::open && to.terminal <= 1;
  }
};

struct Signal {
  std::uint32_t id = 0;
  std::int32_t number = 9;
  std::uint8_t tree = 1;  // everything that the command started, or its leader alone

  void encode(Writer& out) const {
    out.u8(static_cast<std::uint8_t>(Message::signal));
    out.u32(id);
    out.i32(number);
    out.u8(tree);
  }
  static bool decode(Reader& in, Signal& to) {
    to.id = in.u32();
    to.number = in.i32();
    to.tree = in.u8();
    return in.done();
  }
};

// No more will be written: the guest closes its copy of stdin, as the server did with its own.
struct CloseInput {
  std::uint32_t id = 0;

  void encode(Writer& out) const {
    out.u8(static_cast<std::uint8_t>(Message::close_input));
    out.u32(id);
  }
  static bool decode(Reader& in, CloseInput& to) {
    to.id = in.u32();
    return in.done();
  }
};

// The server has stored what it was told: the guest may forget it.
struct Release {
  static constexpr std::uint8_t kExit = 1;    // the exit record
  static constexpr std::uint8_t kOutput = 2;  // both pipes were read to their end
  std::uint32_t id = 0;
  std::uint8_t what = 0;

  void encode(Writer& out) const {
    out.u8(static_cast<std::uint8_t>(Message::release));
    out.u32(id);
    out.u8(what);
  }
  static bool decode(Reader& in, Release& to) {
    to.id = in.u32();
    to.what = in.u8();
    return in.done();
  }
};

struct Ready {
  std::uint32_t version = kVersion;
  std::uint32_t commands = 0;  // how many are told again after this: the server was replaced

  void encode(Writer& out) const {
    out.u8(static_cast<std::uint8_t>(Message::ready));
    out.u32(version);
    out.u32(commands);
  }
  static bool decode(Reader& in, Ready& to) {
    to.version = in.u32();
    to.commands = in.u32();
    return in.done();
  }
};

// A step of the set-up or of a command's start that failed.
struct Failure {
  std::uint32_t id = 0;
  std::int32_t number = 0;  // errno
  std::string step;

  void encode(Writer& out, Message type) const {
    out.u8(static_cast<std::uint8_t>(type));
    out.u32(id);
    out.i32(number);
    out.bytes(step);
  }
  static bool decode(Reader& in, Failure& to) {
    to.id = in.u32();
    to.number = in.i32();
    to.step = in.bytes();
    return in.done();
  }
};

// Which descriptors come with Started, in this order.
enum class Streams : std::uint8_t {
  output = 0,    // the read ends of stdout and stderr
  open = 1,      // these, and the write end of stdin
  terminal = 2,  // the master, and both ends of a pipe of the guest's for what is read from it
};
constexpr std::size_t descriptors_of(Streams streams) { return streams == Streams::output ? 2 : 3; }

struct Started {
  std::uint32_t id = 0;
  std::int32_t pid = 0;
  std::uint64_t age_us = 0;  // since its start: not 0 when told again
  Streams streams = Streams::output;
  std::string note;                 // of Start
  std::uint64_t taken[2] = {0, 0};  // bytes of its output that PID 1 has dropped: `stored`

  void encode(Writer& out) const {
    out.u8(static_cast<std::uint8_t>(Message::started));
    out.u32(id);
    out.i32(pid);
    out.u64(age_us);
    out.u8(static_cast<std::uint8_t>(streams));
    out.bytes(note);
    for (const std::uint64_t bytes : taken) out.u64(bytes);
  }
  static bool decode(Reader& in, Started& to) {
    to.id = in.u32();
    to.pid = in.i32();
    to.age_us = in.u64();
    to.streams = static_cast<Streams>(in.u8());
    to.note = in.bytes();
    for (std::uint64_t& bytes : to.taken) bytes = in.u64();
    return in.done() && to.streams <= Streams::terminal;
  }
};

struct Exited {
  std::uint32_t id = 0;
  std::int32_t code = 0;    // exit status, when signal is 0
  std::int32_t signal = 0;  // that ended it
  Cause cause = Cause::exited;
  std::uint32_t limits_hit = 0;
  std::uint64_t wall_us = 0;
  std::uint64_t cpu_us = 0;
  std::uint64_t peak_bytes = 0;

  void encode(Writer& out) const {
    out.u8(static_cast<std::uint8_t>(Message::exited));
    out.u32(id);
    out.i32(code);
    out.i32(signal);
    out.u8(static_cast<std::uint8_t>(cause));
    out.u32(limits_hit);
    out.u64(wall_us);
    out.u64(cpu_us);
    out.u64(peak_bytes);
  }
  static bool decode(Reader& in, Exited& to) {
    to.id = in.u32();
    to.code = in.i32();
    to.signal = in.i32();
    to.cause = static_cast<Cause>(in.u8());
    to.limits_hit = in.u32();
    to.wall_us = in.u64();
    to.cpu_us = in.u64();
    to.peak_bytes = in.u64();
    return in.done() && to.cause <= Cause::killed;
  }
};

// How a shell is; told when that changes, and before the end of the run that changed it.
struct ShellState {
  enum class What : std::uint8_t { waits = 0, runs = 1, dead = 2, closed = 3 };
  std::uint32_t id = 0;
  What what = What::waits;
  std::uint32_t generation = 0;  // how often it was opened
  std::uint8_t restored = 0;     // the last time, with what it knew before
  std::uint32_t run = 0;         // the one at work, or the last one
  std::int32_t pid = 0;
  std::string cwd;
  std::uint8_t ended = 0;       // it has, before this generation; how:
  std::uint32_t ended_run = 0;  // during this one; 0: while it waited
  std::int32_t code = 0;
  std::int32_t signal = 0;
  Cause cause = Cause::exited;
  std::string note;  // of Start

  void encode(Writer& out) const {
    out.u8(static_cast<std::uint8_t>(Message::shell));
    out.u32(id);
    out.u8(static_cast<std::uint8_t>(what));
    out.u32(generation);
    out.u8(restored);
    out.u32(run);
    out.i32(pid);
    out.bytes(cwd);
    out.u8(ended);
    out.u32(ended_run);
    out.i32(code);
    out.i32(signal);
    out.u8(static_cast<std::uint8_t>(cause));
    out.bytes(note);
  }
  static bool decode(Reader& in, ShellState& to) {
    to.id = in.u32();
    to.what = static_cast<What>(in.u8());
    to.generation = in.u32();
    to.restored = in.u8();
    to.run = in.u32();
    to.pid = in.i32();
    to.cwd = in.bytes();
    to.ended = in.u8();
    to.ended_run = in.u32();
    to.code = in.i32();
    to.signal = in.i32();
    to.cause = static_cast<Cause>(in.u8());
    to.note = in.bytes();
    return in.done() && to.what <= What::closed && to.cause <= Cause::killed;
  }
};

}  // namespace tb::guest
