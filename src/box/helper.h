// SPDX-License-Identifier: Apache-2.0
// The way to a file helper of a sandbox, whatever carries it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/async.h"
#include "base/error.h"
#include "base/units.h"

namespace tb::box {

// What a helper passed to us: a file that it opened, or one end of a pipe to it.
class HelperFile {
 public:
  struct State {
    bool regular = false;
    std::uint64_t size = 0;
    std::string version;  // guest::files::version_of()
  };
  virtual ~HelperFile() = default;
  virtual State state() = 0;

  // ---- of a file ----
  // How many bytes, 0 at the end.
  virtual awaitable<std::size_t> read(std::uint64_t offset, std::span<char> out) = 0;
  // As sandbox::OpenFile has it.
  virtual awaitable<std::optional<std::size_t>> send(int /*socket*/, std::uint64_t /*offset*/,
                                                     std::uint64_t /*most*/) {
    co_return std::nullopt;
  }
  // All of it, though perhaps not before the next call; returns the errno or 0.
  virtual awaitable<int> write(std::string_view bytes) = 0;
  // Once nothing of it is under way; returns the errno or 0.
  virtual awaitable<int> flush() { co_return 0; }

  // ---- of a pipe ----
  // How many bytes, 0 at the end. Throws Error{unavailable} when none come for too long.
  virtual awaitable<std::size_t> take(std::span<char> out) = 0;
  // All of it; false: nobody reads it any more.
  virtual awaitable<bool> give(std::string_view bytes) = 0;
  // Nothing more will be given.
  virtual void close() = 0;
};

constexpr auto kPipeStall = 30s;  // for one step of a helper, in a sandbox with little CPU

// A helper of our own. Its end is the helper's.
class HelperLink {
 public:
  struct Heard {
    std::string packet;
    std::unique_ptr<HelperFile> file;  // with some; valid as long as the link
  };
  virtual ~HelperLink() = default;
  // Throws Error{unavailable} when it is gone.
  virtual void say(std::string packet) = 0;
  // The next one; throws Error{unavailable} when it is gone or says nothing for so long.
  virtual awaitable<Heard> hear(Milliseconds limit) = 0;
  // It has opened a file for reading, and nothing more will be asked.
  virtual void opened() {}

  static Error ended();
  static Error silent();
  static Error stalled();
};

}  // namespace tb::box
