// SPDX-License-Identifier: Apache-2.0
#include "api/follow.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/post.hpp>

namespace tb::api {
namespace {

constexpr std::size_t kPiece = 64 << 10;
constexpr std::size_t kFilePiece = 256 << 10;
constexpr std::uint64_t kTurn = 1 << 20;  // so many bytes at once, then others have theirs
constexpr std::chrono::milliseconds kSignOfLife = 15s;
constexpr std::chrono::milliseconds kHalf = 1s;

// How many bytes at the end may be the beginning of a character.
std::size_t unfinished(const std::string& text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto c = static_cast<unsigned char>(text[text.size() - back]);
    if (c < 0x80) return 0;
    if (c < 0xc0) continue;  // within one
    const std::size_t length = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}

// The next piece of what is there.
Piece next_bytes(const sandbox::Process& process, sandbox::Stream stream, std::uint64_t offset,
                 Cut cut = Cut::anywhere) {
  Piece piece;
  piece.stream = stream;
  piece.offset = offset;
  if (cut == Cut::in_file) piece.file = process.find_output(stream, offset, kFilePiece);
  if (piece.file) return piece;
  piece.bytes = process.read_output(stream, offset, kPiece);
  if (piece.bytes.empty() && process.output_size(stream) > offset) {
    piece.offset = process.next_output(stream, offset);
    piece.dropped = piece.offset - offset;
    piece.bytes = process.read_output(stream, piece.offset, kPiece);
  }
  return piece;
}

// The same in whole characters; empty if there is nothing new but, perhaps, the beginning of one.
// `all`: that too, once nothing else is there.
Piece next_text(const sandbox::Process& process, sandbox::Stream stream, std::uint64_t offset,
                bool all) {
  Piece piece = next_bytes(process, stream, offset);
  const std::size_t half = unfinished(piece.bytes);
  if (!all || half < piece.bytes.size()) piece.bytes.resize(piece.bytes.size() - half);
  return piece;
}

awaitable<bool> output_beyond(std::shared_ptr<sandbox::Process> process, sandbox::Stream stream,
                              std::uint64_t offset, Nudge* nudge) {
  using namespace asio::experimental::awaitable_operators;
  if (nudge) {
    co_await (process->wait_output(stream, offset) || nudge->wait());
  } else {
    co_await process->wait_output(stream, offset);
  }
  co_return true;
}

// More output, or the end of the process, which something that it left behind may outlive.
awaitable<bool> output_or_exit(std::shared_ptr<sandbox::Process> process, std::uint64_t seen,
                               Nudge* nudge) {
  using namespace asio::experimental::awaitable_operators;
  co_await (output_beyond(process, sandbox::Stream::all, seen, nudge) || process->wait());
  co_return true;
}

Piece next_piece(const sandbox::Process& process, sandbox::Stream stream, std::uint64_t offset,
                 Cut cut, bool all) {
  return cut == Cut::between_characters ? next_text(process, stream, offset, all)
                                        : next_bytes(process, stream, offset, cut);
}

}  // namespace

awaitable<void> follow(std::shared_ptr<sandbox::Process> process, sandbox::Stream stream,
                       std::uint64_t offset, Take take, Following how) {
  bool all = false;
  std::uint64_t turn = 0;
  for (;;) {
    // Before the output: nothing comes after the end.
    const bool ended = process->output_ended(stream);
    const Piece piece = next_piece(*process, stream, offset, how.cut, all || ended);
    all = false;
    if (!piece.sign_of_life()) {
      offset = piece.end();
      co_await take(piece);
      turn += piece.size();
      if (turn >= kTurn) co_await asio::post(asio::use_awaitable);
      turn %= kTurn;
      continue;
    }
    if (ended) co_return;
    // Half a character waits for its other half, but not for ever.
    const std::uint64_t seen = process->output_size(stream);
    const bool half = seen > offset;
    const auto limit = half ? kHalf : kSignOfLife;
    const auto woken = co_await within(limit, output_beyond(process, stream, seen, how.nudge));
    all = half && !woken;
    const bool nudged = how.nudge && how.nudge->take();
    if (nudged || (!half && !woken)) co_await take(piece);
  }
}

awaitable<void> follow_until_exit(std::shared_ptr<sandbox::Process> process, Take take,
                                  Following how) {
  constexpr std::uint64_t kOpen = UINT64_MAX;
  std::uint64_t offsets[2] = {0, 0};
  std::uint64_t ends[2] = {kOpen, kOpen};
  for (;;) {
    // What was printed until the exit is there with it; what is printed in the background later
    // is not waited for.
    const bool over = process->exit().has_value();
    bool any = false;
    for (const sandbox::Stream stream : {sandbox::Stream::out, sandbox::Stream::err}) {
      std::uint64_t& offset = offsets[static_cast<int>(stream)];
      std::uint64_t& end = ends[static_cast<int>(stream)];
      if (over && end == kOpen) end = process->output_size(stream);
      if (offset >= end) continue;
      const Piece piece = next_piece(*process, stream, offset, how.cut, over);
      if (piece.sign_of_life()) continue;
      offset = piece.end();
      any = true;
      co_await take(piece);
    }
    if (any) continue;
    if (over) co_return;
    if (process->output_ended(sandbox::Stream::all)) {
      co_await process->wait();
      continue;
    }
    const std::uint64_t seen = process->output_size(sandbox::Stream::all);
    const auto woken = co_await within(kSignOfLife, output_or_exit(process, seen, how.nudge));
    const bool nudged = how.nudge && how.nudge->take();
    const Piece nothing;
    if (nudged || !woken) co_await take(nothing);
  }
}

}  // namespace tb::api
