// SPDX-License-Identifier: Apache-2.0
#include "sandbox/lines.h"

#include <algorithm>
#include <cstring>

#include "base/async.h"

namespace tb::sandbox {
namespace {

constexpr std::size_t kPiece = 256 << 10;

// Takes pieces of a file one after another.
class LineReader {
 public:
  explicit LineReader(LineRange range) : range_(range) { lines_.first = range.first; }

  void take(std::string_view piece) {
    while (!piece.empty()) {
      const auto* newline = static_cast<const char*>(std::memchr(piece.data(), '\n', piece.size()));
      const std::size_t size =
          newline ? static_cast<std::size_t>(newline - piece.data()) + 1 : piece.size();
      add(piece.substr(0, size), newline != nullptr);
      piece.remove_prefix(size);
    }
  }

  // All that was asked for is there, and something follows.
  bool satisfied() const { return lines_.more; }

  Lines finish(bool at_end) {
    if (begun_ && wanted()) ++lines_.count;
    if (at_end) lines_.total = line_ - (begun_ ? 0 : 1);
    lines_.more = lines_.more || !at_end;
    return std::move(lines_);
  }

 private:
  bool wanted() const {
    return line_ >= range_.first && line_ - range_.first < range_.count && !full_;
  }

  void add(std::string_view part, bool ends) {
    if (line_ >= range_.first && !wanted()) lines_.more = true;
    if (wanted()) store(part);
    begun_ = !ends;
    if (!ends) return;
    if (wanted()) {
      ++lines_.count;
      whole_ = lines_.text.size();
    }
    ++line_;
  }

  // Only whole lines, but of the first one as much as may be.
  void store(std::string_view part) {
    const std::size_t room = range_.most.count - lines_.text.size();
    lines_.text.append(part.substr(0, room));
    if (part.size() <= room) return;
    full_ = lines_.more = true;
    if (lines_.count > 0) {
      lines_.text.resize(whole_);
    } else {
      lines_.cut = true;
      lines_.count = 1;
    }
  }

  LineRange range_;
  Lines lines_;
  std::uint64_t line_ = 1;
  std::size_t whole_ = 0;  // bytes of whole lines
  bool begun_ = false;     // the line has a byte and no end yet
  bool full_ = false;
};

}  // namespace

awaitable<Lines> read_lines(OpenFile& file, LineRange range) {
  range.first = std::max<std::uint64_t>(range.first, 1);
  LineReader reader{range};
  std::string buffer(kPiece, '\0');
  const auto executor = co_await asio::this_coro::executor;
  bool at_end = false;
  for (std::uint64_t at = 0; !at_end;) {
    const std::size_t got = co_await file.read(at, buffer);
    at_end = got == 0;
    reader.take({buffer.data(), got});
    at += got;
    if (reader.satisfied() && at >= range.counted.count) break;
    // What is in memory comes without a wait: others have their turn here.
    co_await asio::post(executor, asio::use_awaitable);
  }
  co_return reader.finish(at_end);
}

}  // namespace tb::sandbox
