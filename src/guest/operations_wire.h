// SPDX-License-Identifier: Apache-2.0
// What the file helper does beyond opening, naming and listing single files
// (docs/formats/guest.md): walks, searches, changes of the tree, archives. On the same socket as
// files_wire.h, told apart by the first byte. No exceptions: the guest includes this too.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/codec.h"
#include "guest/files_wire.h"

namespace tb::guest::files {

enum class Operation : std::uint8_t {
  stat = 16,     // one name, links not followed: answered by `done` with one item
  walk = 17,     // names below a directory, in order: any number of `items`, then `done`
  search = 18,   // lines of files below: any number of `items`, then `done`
  mkdir = 19,    // with its parents: `done` with one item; `complete` 0: it was there
  move = 20,     // `done` with one item
  remove = 21,   // `done`
  commit = 22,   // as Message::commit, with conditions: `done` with one item; `complete` 0: there
                 // was a file of that name
  archive = 23,  // a tar of paths: `stream`, which passes a pipe to read, and `done` at its end
  unpack = 24,   // the other way round: `stream` with a pipe to write, `done` after its end
};

enum class Told : std::uint8_t {
  done = 80,
  items = 81,
  stream = 82,
  working = 83,  // said now and then by what takes long
  refused = 84,
};

constexpr std::size_t kMaxPaths = 48 << 10;  // bytes of the paths of an archive
constexpr std::size_t kMaxSearched = 4096;   // bytes of what is searched for
constexpr std::size_t kMaxShown = 2000;      // bytes of a line that was found

struct OperationRequest {
  enum Flag : std::uint32_t {
    recursive = 1,    // walk, remove
    regex = 2,        // search
    ignore_case = 4,  // search
    exclusive = 8,    // commit, move: nothing is replaced
    append = 16,      // commit
    set_mode = 32,    // commit, mkdir
    gzip = 64,        // archive, unpack
  };
  Operation type = Operation::stat;
  std::string path;                // empty: the workspace itself
  std::string other;               // move: the new path; walk: begin after this path;
                                   // commit: the version that is to be replaced
  std::string glob;                // walk, search: only what matches
  std::string text;                // search: what for
  std::vector<std::string> paths;  // archive: below `path`; none: all of it
  std::uint32_t flags = 0;
  std::uint32_t mode = 0;
  std::uint64_t most = 0;        // items
  std::uint64_t file_bytes = 0;  // at most in one file
  std::uint64_t files = 0;       // at most that many more
  std::uint64_t bytes = 0;       // at most that many more

  bool has(Flag flag) const { return (flags & flag) != 0; }

  std::string encode() const {
    Writer out;
    out.u8(static_cast<std::uint8_t>(type));
    for (const std::string* field : {&path, &other, &glob, &text}) out.bytes(*field);
    out.list(paths);
    out.u32(flags);
    out.u32(mode);
    for (const std::uint64_t number : {most, file_bytes, files, bytes}) out.u64(number);
    return out.take();
  }
  static bool decode(std::string_view packet, OperationRequest& to) {
    Reader in{packet};
    to.type = static_cast<Operation>(in.u8());
    for (std::string* field : {&to.path, &to.other, &to.glob, &to.text}) *field = in.bytes();
    to.paths = in.list();
    to.flags = in.u32();
    to.mode = in.u32();
    for (std::uint64_t* number : {&to.most, &to.file_bytes, &to.files, &to.bytes}) {
      *number = in.u64();
    }
    const auto good = [](const std::string& path) {
      return path.size() <= kMaxPath && path.find('\0') == std::string::npos;
    };
    for (const std::string& path : to.paths) {
      if (!good(path)) return false;
    }
    return in.done() && to.type >= Operation::stat && to.type <= Operation::unpack &&
           good(to.path) && good(to.other) && to.text.size() <= kMaxSearched;
  }
};

inline bool is_operation(std::string_view packet) {
  const auto first = packet.empty() ? '\0' : packet.front();
  return first >= static_cast<char>(Operation::stat) &&
         first <= static_cast<char>(Operation::unpack);
}

// Another one when the bytes of a file may be others: the tenant can set the time of the last
// modification, but not the one of the last change; and a file that takes the place of another one
// has another number.
inline std::string version_of(const struct stat& info) {
  char text[80];
  std::snprintf(text, sizeof text, "%llx-%llx.%lx-%llx",
                static_cast<unsigned long long>(info.st_ino),
                static_cast<unsigned long long>(info.st_ctim.tv_sec), info.st_ctim.tv_nsec,
                static_cast<unsigned long long>(info.st_size));
  return text;
}

// A name or a line that was found.
struct Item {
  Entry entry;  // its name is a path, relative to the workspace
  std::string version;
  std::string target;      // of a link
  std::uint64_t line = 0;  // from 1, of a search
  std::string text;        // of that line

  void encode(Writer& out) const {
    entry.encode(out);
    out.bytes(version);
    out.bytes(target);
    out.u64(line);
    out.bytes(text);
  }
  static Item decode(Reader& in) {
    Item item;
    item.entry = Entry::decode(in);
    item.version = in.bytes();
    item.target = in.bytes();
    item.line = in.u64();
    item.text = in.bytes();
    return item;
  }
  std::size_t size() const {
    return entry.name.size() + version.size() + target.size() + text.size() + 60;
  }
};

struct OperationAnswer {
  Told type = Told::done;
  Reason reason = Reason::failed;  // of refused
  std::int32_t number = 0;         // errno of refused
  std::string text;                // what refused is about: an entry of an archive, a mistake
  std::uint64_t files = 0;         // of done: walked, searched, unpacked
  std::uint64_t bytes = 0;         // of done: unpacked
  std::uint8_t complete = 1;       // of done: nothing was left out
  std::vector<Item> items = {};

  std::string encode() const {
    Writer out;
    out.u8(static_cast<std::uint8_t>(type));
    out.u8(static_cast<std::uint8_t>(reason));
    out.i32(number);
    out.bytes(text);
    out.u64(files);
    out.u64(bytes);
    out.u8(complete);
    out.u32(static_cast<std::uint32_t>(items.size()));
    for (const Item& item : items) item.encode(out);
    return out.take();
  }
  static bool decode(std::string_view packet, OperationAnswer& to) {
    Reader in{packet};
    to.type = static_cast<Told>(in.u8());
    to.reason = static_cast<Reason>(in.u8());
    to.number = in.i32();
    to.text = in.bytes();
    to.files = in.u64();
    to.bytes = in.u64();
    to.complete = in.u8();
    const std::uint32_t count = in.u32();
    for (std::uint32_t i = 0; i < count && in.ok(); ++i) {
      to.items.push_back(Item::decode(in));
      if (to.items.back().entry.type > Type::other) return false;
    }
    return in.done() && to.type >= Told::done && to.type <= Told::refused &&
           to.reason <= Reason::changed;
  }
};

}  // namespace tb::guest::files
