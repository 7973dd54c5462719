// SPDX-License-Identifier: Apache-2.0
// Output while it is printed: from a byte offset to the end, to a client that may come back.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/async.h"
#include "base/nudge.h"
#include "sandbox/sandbox.h"

namespace tb::api {

// What follows in a stream.
struct Piece {
  sandbox::Stream stream = sandbox::Stream::out;
  std::uint64_t offset = 0;  // of its first byte
  std::string bytes;
  std::optional<sandbox::FilePart> file;  // instead of bytes, for who asked for that
  std::uint64_t dropped = 0;              // bytes before it that are not kept any more

  std::uint64_t size() const { return file ? file->size : bytes.size(); }
  std::uint64_t end() const { return offset + size(); }
  // It is only to find out whether the client is still there.
  bool sign_of_life() const { return size() == 0 && dropped == 0; }
};

using Take = std::function<awaitable<void>(const Piece& piece)>;

// Who makes text of the pieces needs whole characters, as far as it is UTF-8 at all: half a one
// waits a moment for the rest. Bytes that may be anything should not; and many of them are best
// left in their file by who sends them on as they are.
enum class Cut { between_characters, anywhere, in_file };

struct Following {
  Cut cut = Cut::between_characters;
  Nudge* nudge = nullptr;  // has a sign of life written at once
};

// Hands over everything from `offset` on, until no more will come. Nothing for a while, or a nudge:
// an empty piece.
awaitable<void> follow(std::shared_ptr<sandbox::Process> process, sandbox::Stream stream,
                       std::uint64_t offset, Take take, Following how = {});

// Both streams, each from its beginning; until the process has ended and what it printed by then
// was handed over. What it left in the background is not waited for.
awaitable<void> follow_until_exit(std::shared_ptr<sandbox::Process> process, Take take,
                                  Following how = {});

}  // namespace tb::api
