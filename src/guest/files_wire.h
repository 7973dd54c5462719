// SPDX-License-Identifier: Apache-2.0
// What the server and the file helper of a sandbox say to each other (docs/formats/guest.md), over
// a socket of their own that the server makes and passes to PID 1. One message is one seqpacket
// packet. Paths are relative to the workspace. No exceptions: the guest includes this too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/codec.h"

namespace tb::guest::files {

constexpr std::size_t kMaxPath = 4095;
constexpr std::size_t kMaxName = 255;

enum class Message : std::uint8_t {
  // server to helper
  open = 1,    // a regular file to read: answered by `opened`
  create = 2,  // a file without a name to write to: answered by `opened`
  commit = 3,  // gives that file its name, in place of what had it: answered by `done`
  list = 4,    // a directory: answered by any number of `entries`, then `done`
  usage = 5,   // the whole workspace: answered by `used`
  // helper to server
  opened = 64,  // passes the descriptor
  done = 65,
  entries = 66,
  used = 67,
  refused = 68,
};

enum class Type : std::uint8_t { file = 0, directory = 1, link = 2, other = 3 };

// Why not, as far as callers care.
enum class Reason : std::uint8_t {
  failed = 0,       // the errno says it
  not_found = 1,    // nothing has this name
  not_regular = 2,  // a directory, a FIFO, a socket, a device
  outside = 3,      // a link or ".." leads out of the workspace, or in circles
  link = 4,         // would replace a symbolic link
  blocked = 5,      // a part of the path is not a directory
  denied = 6,       // permissions of the tenant's own files
  full = 7,         // no space, or the quota is used up
  bad_name = 8,     // too long, empty
  // Only of operations (operations_wire.h):
  exists = 9,      // something has this name
  not_empty = 10,  // a directory
  not_directory = 11,
  too_large = 12,  // a file
  too_many = 13,   // files
  bad_pattern = 14,
  bad_archive = 15,
  changed = 16,  // since it was read
};

struct Request {
  Message type = Message::open;
  std::string path;        // of open, commit and list; empty for list: the workspace itself
  std::uint64_t most = 0;  // entries of list or usage

  std::string encode() const {
    Writer out;
    out.u8(static_cast<std::uint8_t>(type));
    out.bytes(path);
    out.u64(most);
    return out.take();
  }
  static bool decode(std::string_view packet, Request& to) {
    Reader in{packet};
    to.type = static_cast<Message>(in.u8());
    to.path = in.bytes();
    to.most = in.u64();
    return in.done() && to.type >= Message::open && to.type <= Message::usage &&
           to.path.size() <= kMaxPath && to.path.find('\0') == std::string::npos;
  }
};

struct Entry {
  std::string name;
  Type type = Type::file;
  std::uint32_t mode = 0;
  std::uint64_t size = 0;
  std::uint64_t modified_ns = 0;

  void encode(Writer& out) const {
    out.bytes(name);
    out.u8(static_cast<std::uint8_t>(type));
    out.u32(mode);
    out.u64(size);
    out.u64(modified_ns);
  }
  static Entry decode(Reader& in) {
    Entry entry;
    entry.name = in.bytes();
    entry.type = static_cast<Type>(in.u8());
    entry.mode = in.u32();
    entry.size = in.u64();
    entry.modified_ns = in.u64();
    return entry;
  }
};

// Every answer, with what its type does not use left empty.
struct Answer {
  Message type = Message::done;
  Reason reason = Reason::failed;  // of refused
  std::int32_t number = 0;         // errno of refused
  std::uint64_t files = 0;         // regular ones, of used
  std::uint64_t bytes = 0;         // in them, of used
  std::uint8_t complete = 1;       // of used and of the `done` of a list
  std::vector<Entry> entries;      // of entries; of opened and a commit's done: one, the file

  std::string encode() const {
    Writer out;
    out.u8(static_cast<std::uint8_t>(type));
    out.u8(static_cast<std::uint8_t>(reason));
    out.i32(number);
    out.u64(files);
    out.u64(bytes);
    out.u8(complete);
    out.u32(static_cast<std::uint32_t>(entries.size()));
    for (const Entry& entry : entries) entry.encode(out);
    return out.take();
  }
  static bool decode(std::string_view packet, Answer& to) {
    Reader in{packet};
    to.type = static_cast<Message>(in.u8());
    to.reason = static_cast<Reason>(in.u8());
    to.number = in.i32();
    to.files = in.u64();
    to.bytes = in.u64();
    to.complete = in.u8();
    const std::uint32_t count = in.u32();
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      to.entries.push_back(Entry::decode(in));
      if (to.entries.back().type > Type::other) return false;
    }
    return in.done() && to.type >= Message::opened && to.type <= Message::refused &&
           to.reason <= Reason::changed;
  }
};

}  // namespace tb::guest::files
