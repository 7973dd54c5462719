// SPDX-License-Identifier: Apache-2.0
// What the server and the keeper say to each other (docs/formats/keeper.md): one seqpacket packet a
// message, a type byte, the request's number, then fields in the order of the structs here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/codec.h"
#include "base/mount_target.h"

namespace tb::jail {

constexpr std::uint32_t kVersion = 5;

enum class Message : std::uint8_t {
  // to the keeper
  hello = 1,
  create = 2,
  attach = 3,
  label = 4,
  destroy = 5,  // id, and 1 to keep its files
  list = 6,
  stop = 7,
  measure = 8,   // id
  join = 9,      // id: as attach, but waits until who has it says release
  release = 10,  // id
  make_volume = 11,
  remove_volume = 12,  // id
  list_volumes = 13,
  lease = 14,
  rest = 15,  // id: ends it and keeps its files, unless something is in it beside them
  // from the keeper
  welcome = 64,
  created = 65,  // passes the socket to the sandbox's PID 1; also answers attach
  done = 66,     // label, destroy, end of a list
  failed = 67,
  item = 68,  // one of a list
  measured = 71,
  wanted = 72,    // number 0, id: told to who has a sandbox that another one would join
  stopping = 70,  // told to everybody, number 0: the keeper was asked to end
  gone = 69,      // number 0: a sandbox ended; told to all but those who asked for it
  volume = 73,    // one of a list
};

struct Limits {
  std::uint64_t memory = 256ull << 20;
  std::uint64_t disk = 500ull << 20;
  std::uint32_t cpu_quota = 25000;  // of 100000: one core
  std::uint32_t pids = 256;
  std::uint32_t open_files = 1024;

  void encode(Writer& out) const {
    out.u64(memory);
    out.u64(disk);
    out.u32(cpu_quota);
    out.u32(pids);
    out.u32(open_files);
  }
  static Limits decode(Reader& in) {
    Limits limits;
    limits.memory = in.u64();
    limits.disk = in.u64();
    limits.cpu_quota = in.u32();
    limits.pids = in.u32();
    limits.open_files = in.u32();
    return limits;
  }
};

// Ids name directories and cgroups: letters, digits, dashes.
inline bool valid_id(std::string_view id) {
  if (id.empty() || id.size() > 64) return false;
  for (const char c : id) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
    if (!fine) return false;
  }
  return true;
}

// Programs are names to be looked up in the sandbox's own PATH: never a path, and not too many.
constexpr std::size_t kMaxPrograms = 512;
constexpr std::size_t kMaxProgramName = 64;

inline bool valid_programs(const std::vector<std::string>& programs) {
  if (programs.size() > kMaxPrograms) return false;
  for (const std::string& name : programs) {
    if (name.empty() || name.size() > kMaxProgramName || name == "." || name == "..") return false;
    for (const char c : name) {
      const bool visible = c > ' ' && c < 0x7f;
      if (!visible || c == '/') return false;
    }
  }
  return true;
}

// Something that is mounted into a sandbox beside its own tree. Volumes are named by their id, and
// directories of the host only by a path that the keeper was started for: who has taken the server
// over can't choose others.
struct Mount {
  enum class Kind : std::uint8_t { volume = 0, directory = 1 };
  Kind kind = Kind::volume;
  std::uint8_t read_only = 1;
  std::string source;
  std::string target;  // an absolute path in the sandbox
  bool operator==(const Mount&) const = default;
};

constexpr std::size_t kMaxMounts = 16;

// Each has a place that is allowed, none is in another, and there are not too many.
inline bool valid_mounts(const std::vector<Mount>& mounts) {
  if (mounts.size() > kMaxMounts) return false;
  for (std::size_t i = 0; i < mounts.size(); ++i) {
    const Mount& mount = mounts[i];
    const bool volume = mount.kind == Mount::Kind::volume;
    if (!volume && mount.kind != Mount::Kind::directory) return false;
    if (volume ? !valid_id(mount.source) : !mount.source.starts_with('/')) return false;
    if (mount.read_only > 1 || !problem_of_target(mount.target).empty()) return false;
    for (std::size_t j = 0; j < i; ++j) {
      if (targets_touch(mount.target, mounts[j].target)) return false;
    }
  }
  return true;
}

inline void encode_mounts(Writer& out, const std::vector<Mount>& mounts) {
  out.u32(static_cast<std::uint32_t>(mounts.size()));
  for (const Mount& mount : mounts) {
    out.u8(static_cast<std::uint8_t>(mount.kind));
    out.u8(mount.read_only);
    out.bytes(mount.source);
    out.bytes(mount.target);
  }
}

inline std::vector<Mount> decode_mounts(Reader& in) {
  std::vector<Mount> mounts;
  const std::uint32_t count = in.u32();
  for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
    Mount mount;
    mount.kind = static_cast<Mount::Kind>(in.u8());
    mount.read_only = in.u8();
    mount.source = in.bytes();
    mount.target = in.bytes();
    if (in.ok()) mounts.push_back(std::move(mount));
  }
  return mounts;
}

constexpr std::uint32_t kMaxHelpers = 1;

struct Create {
  std::string id;           // made by the server; an id whose files are still there gets them back
  std::string environment;  // "host" or "image:<path>"
  Limits limits;
  std::uint64_t ttl_ms = 0;   // ends when nobody says `label` again for so long; 0: never
  std::string label;          // the server's own words about it, kept for the next server
  std::uint32_t fail_at = 0;  // tests only: this system call of the set-up fails
  // Confined: only these can be executed or read, with the shell. Empty: any. The files of one that
  // was confined are brought back with the list that it had.
  std::vector<std::string> programs;
  // The files of one that had some are brought back with those that it had.
  std::vector<Mount> mounts;
  std::uint32_t helpers = 0;  // processes of ours that take no place from commands

  void encode(Writer& out) const {
    out.bytes(id);
    out.bytes(environment);
    limits.encode(out);
    out.u64(ttl_ms);
    out.bytes(label);
    out.u32(fail_at);
    out.list(programs);
    encode_mounts(out, mounts);
    out.u32(helpers);
  }
  static bool decode(Reader& in, Create& to) {
    to.id = in.bytes();
    to.environment = in.bytes();
    to.limits = Limits::decode(in);
    to.ttl_ms = in.u64();
    to.label = in.bytes();
    to.fail_at = in.u32();
    to.programs = in.list();
    to.mounts = decode_mounts(in);
    to.helpers = in.u32();
    return in.done() && to.helpers <= kMaxHelpers && valid_id(to.id) &&
           valid_programs(to.programs) && valid_mounts(to.mounts);
  }
};

struct MakeVolume {
  std::string id;
  std::uint64_t limit = 0;  // bytes
  std::string label;        // the server's own words about it

  void encode(Writer& out) const {
    out.bytes(id);
    out.u64(limit);
    out.bytes(label);
  }
  static bool decode(Reader& in, MakeVolume& to) {
    to.id = in.bytes();
    to.limit = in.u64();
    to.label = in.bytes();
    return in.done() && valid_id(to.id) && to.label.size() <= 4096;
  }
};

struct VolumeItem {
  std::string id;
  std::uint64_t limit = 0;
  std::uint8_t limited = 0;  // the kernel holds it to that
  std::string label;
  std::vector<std::string> users;  // sandboxes that have it mounted, or will when they come back

  void encode(Writer& out) const {
    out.bytes(id);
    out.u64(limit);
    out.u8(limited);
    out.bytes(label);
    out.list(users);
  }
  static bool decode(Reader& in, VolumeItem& to) {
    to.id = in.bytes();
    to.limit = in.u64();
    to.limited = in.u8();
    to.label = in.bytes();
    to.users = in.list();
    return in.done();
  }
};

// Renews the time to live and, when `relabel`, replaces the label.
struct Label {
  std::string id;
  std::uint64_t ttl_ms = 0;
  std::uint8_t relabel = 0;
  std::string label;

  void encode(Writer& out) const {
    out.bytes(id);
    out.u64(ttl_ms);
    out.u8(relabel);
    out.bytes(label);
  }
  static bool decode(Reader& in, Label& to) {
    to.id = in.bytes();
    to.ttl_ms = in.u64();
    to.relabel = in.u8();
    to.label = in.bytes();
    return in.done();
  }
};

// How long all sandboxes may live, whatever becomes of the server: milliseconds of CLOCK_BOOTTIME,
// and not from now on, because whoever says it may have been stopped meanwhile.
struct Lease {
  std::uint64_t freeze_at = 0;
  std::uint64_t end_at = 0;   // 0: there is no lease
  std::uint8_t first = 0;     // only if there is none yet
  std::uint64_t said_at = 0;  // by the same clock: what comes from the future is another's clock

  void encode(Writer& out) const {
    out.u64(freeze_at);
    out.u64(end_at);
    out.u8(first);
    out.u64(said_at);
  }
  static bool decode(Reader& in, Lease& to) {
    to.freeze_at = in.u64();
    to.end_at = in.u64();
    to.first = in.u8();
    to.said_at = in.u64();
    return in.done() && to.freeze_at <= to.end_at;
  }
};

struct Item {
  std::string id;
  std::string environment;
  std::uint8_t alive = 0;  // 0: only its files are there
  std::uint64_t ttl_left_ms = 0;
  std::string label;

  void encode(Writer& out) const {
    out.bytes(id);
    out.bytes(environment);
    out.u8(alive);
    out.u64(ttl_left_ms);
    out.bytes(label);
  }
  static bool decode(Reader& in, Item& to) {
    to.id = in.bytes();
    to.environment = in.bytes();
    to.alive = in.u8();
    to.ttl_left_ms = in.u64();
    to.label = in.bytes();
    return in.done();
  }
};

// What a sandbox takes right now.
struct Measured {
  static constexpr std::uint8_t kMemory = 1;
  static constexpr std::uint8_t kCpu = 2;
  static constexpr std::uint8_t kProcesses = 4;
  std::uint8_t known = 0;  // which of these this host can tell
  std::uint64_t memory_bytes = 0;
  std::uint64_t cpu_us = 0;
  std::uint64_t processes = 0;

  void encode(Writer& out) const {
    out.u8(known);
    out.u64(memory_bytes);
    out.u64(cpu_us);
    out.u64(processes);
  }
  static bool decode(Reader& in, Measured& to) {
    to.known = in.u8();
    to.memory_bytes = in.u64();
    to.cpu_us = in.u64();
    to.processes = in.u64();
    return in.done();
  }
};

// One barrier as this host gives it: the rows of `threadbox doctor`.
struct Barrier {
  std::string name;
  std::uint8_t state = 0;  // 0 present, 1 degraded, 2 missing
  std::string detail;
  std::string advice;
};

struct Welcome {
  std::uint32_t version = kVersion;
  std::uint32_t pid = 0;
  std::vector<Barrier> barriers;
  std::string cleaned;  // what an earlier keeper had left behind; empty: nothing

  void encode(Writer& out) const {
    out.u32(version);
    out.u32(pid);
    out.u32(static_cast<std::uint32_t>(barriers.size()));
    for (const Barrier& barrier : barriers) {
      out.bytes(barrier.name);
      out.u8(barrier.state);
      out.bytes(barrier.detail);
      out.bytes(barrier.advice);
    }
    out.bytes(cleaned);
  }
  static bool decode(Reader& in, Welcome& to) {
    to.version = in.u32();
    to.pid = in.u32();
    const std::uint32_t count = in.u32();
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      Barrier barrier;
      barrier.name = in.bytes();
      barrier.state = in.u8();
      barrier.detail = in.bytes();
      barrier.advice = in.bytes();
      to.barriers.push_back(std::move(barrier));
    }
    to.cleaned = in.bytes();
    return in.done();
  }
};

}  // namespace tb::jail
