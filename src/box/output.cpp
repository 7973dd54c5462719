// SPDX-License-Identifier: Apache-2.0
#include "box/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/codec.h"

namespace tb::box {
namespace {

constexpr int kRounds = 64;                   // of kMove, before what never ends is left alone
constexpr std::size_t kMaxSegments = 100000;  // then the order is told more coarsely

}  // namespace

Output::Output(const std::string& path, const OutputLimits& limits, Earlier earlier)
    : path_(path),
      limits_(limits),
      out_(path + ".out", limits, earlier),
      err_(path + ".err", limits, earlier) {
  if (earlier == Earlier::possible) load_order();
}

void Output::open_pipes(os::Fd out, os::Fd err) {
  out_.open_pipe(std::move(out));
  err_.open_pipe(std::move(err));
}

void Output::open_terminal(os::Fd master, os::Fd pipe, os::Fd relay) {
  out_.open_terminal(std::move(master), std::move(pipe), std::move(relay));
}

void Output::open_told(bool terminal) {
  out_.open_told();
  if (!terminal) err_.open_told();
}

void Output::append(Stream which, std::uint64_t offset, std::string_view bytes) {
  StreamFile& file = stream(which);
  const std::uint64_t stored = file.stored();
  const std::size_t segments = order_.size();
  file.append(offset, bytes);
  if (file.stored() > stored) note(file.stored() - stored, which == Stream::err);
  if (order_.size() > 1 && order_.size() != segments) save_order();
}

void Output::note(std::uint64_t bytes, bool err) {
  const bool same = !order_.empty() && order_.back().err == err;
  if (same) {
    order_.back().bytes += bytes;
  } else if (order_.size() < kMaxSegments) {
    order_.push_back({bytes, err});
  } else {
    // More coarsely: with the last bytes of the same stream.
    (order_.end() - 2)->bytes += bytes;
  }
}

void Output::drain(StreamFile& file, bool err) {
  const std::uint64_t noted = file.readable();
  file.drain();
  if (file.stored() > noted) note(file.stored() - noted, err);
  if (file.stored() < noted) shorten(file.stored(), err);
}

// What was peeked did not fit on the disk: it was the stream's only segment.
void Output::shorten(std::uint64_t bytes, bool err) {
  for (Segment& segment : order_) {
    if (segment.err == err) segment.bytes = bytes;
  }
}

void Output::drain_soon() {
  if (!out_.peek() || !err_.peek()) {
    out_.forget_peeked();
    return drain();
  }
  if (out_.peeked()) note(out_.readable(), false);
  if (err_.peeked()) note(err_.readable(), true);
}

void Output::drain() {
  const std::size_t segments = order_.size();
  drain(out_, false);
  drain(err_, true);
  if (order_.size() > 1 && order_.size() != segments) save_order();
}

void Output::drain_all() {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t before = total(Stream::all);
    drain();
    if (total(Stream::all) == before) return;
  }
}

// A file that a dead server wrote may lag behind the streams: what it lacks comes last.
void Output::load_order() {
  std::uint64_t known[2] = {0, 0};
  os::Fd file{::open((path_ + ".order").c_str(), O_RDONLY | O_CLOEXEC)};
  if (file) {
    std::string text(kMaxSegments * 9, '\0');
    const ssize_t n = ::read(file.get(), text.data(), text.size());
    text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    Reader in{text};
    while (!text.empty() && !in.done() && in.ok()) {
      const std::uint64_t bytes = in.u64();
      const bool err = in.u8() != 0;
      if (!in.ok()) break;
      // After a crash of the machine it may know of bytes that the file has not.
      const std::uint64_t there = (err ? err_ : out_).stored() - known[err];
      known[err] += std::min(bytes, there);
      if (there > 0) note(std::min(bytes, there), err);
    }
    saved_ = order_.size();
  }
  if (out_.stored() > known[0]) note(out_.stored() - known[0], false);
  if (err_.stored() > known[1]) note(err_.stored() - known[1], true);
}

// Appends the segments that have ended; the last one still grows, and its length follows from the
// streams' sizes.
void Output::save_order() {
  Writer out;
  for (; saved_ + 1 < order_.size(); ++saved_) {
    out.u64(order_[saved_].bytes);
    out.u8(order_[saved_].err ? 1 : 0);
  }
  const std::string path = path_ + ".order";
  os::Fd file{::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  // Without it the order is lost after a restart, not a byte.
  if (file) (void)!::write(file.get(), out.view().data(), out.view().size());
}

std::uint64_t Output::total(Stream which) const {
  if (which == Stream::all) return out_.total() + err_.total();
  return which == Stream::err ? err_.total() : out_.total();
}

std::string Output::read(Stream which, std::uint64_t offset, std::size_t limit) const {
  if (which == Stream::all) return read_all(offset, limit);
  return (which == Stream::err ? err_ : out_).read(offset, limit);
}

std::optional<FilePart> Output::find(Stream which, std::uint64_t offset, std::size_t limit) const {
  if (which == Stream::out) return out_.find(offset, limit);
  if (which == Stream::err) return err_.find(offset, limit);
  std::uint64_t at = 0;
  std::uint64_t stream_at[2] = {0, 0};
  for (const Segment& segment : order_) {
    const std::uint64_t end = at + segment.bytes;
    if (end > offset) {
      const std::uint64_t skip = offset - at;
      const std::size_t most = std::min<std::uint64_t>(limit, segment.bytes - skip);
      return (segment.err ? err_ : out_).find(stream_at[segment.err] + skip, most);
    }
    stream_at[segment.err] += segment.bytes;
    at = end;
  }
  return std::nullopt;
}

// Walks the segments; each says from which stream the next bytes came.
std::string Output::read_all(std::uint64_t offset, std::size_t limit) const {
  std::string text;
  std::uint64_t at = 0;
  std::uint64_t stream_at[2] = {0, 0};
  for (const Segment& segment : order_) {
    if (text.size() >= limit) break;
    const std::uint64_t end = at + segment.bytes;
    if (end > offset) {
      const std::uint64_t skip = offset > at ? offset - at : 0;
      const std::size_t want = static_cast<std::size_t>(
          std::min<std::uint64_t>(segment.bytes - skip, limit - text.size()));
      const std::string piece =
          (segment.err ? err_ : out_).read(stream_at[segment.err] + skip, want);
      text += piece;
      if (piece.size() < want) break;  // not kept: what follows has another offset
    }
    stream_at[segment.err] += segment.bytes;
    at = end;
  }
  return text;
}

std::uint64_t Output::next_readable(Stream which, std::uint64_t offset) const {
  if (which != Stream::all) return (which == Stream::err ? err_ : out_).next_readable(offset);
  return read_all(offset, 1).empty() ? total(which) : offset;
}

Captured Output::captured(Stream which) const {
  if (which == Stream::out) return out_.captured();
  if (which == Stream::err) return err_.captured();
  if (err_.total() == 0) return out_.captured();
  if (out_.total() == 0) return err_.captured();
  Captured captured;
  captured.total = total(Stream::all);
  const std::uint64_t stored = out_.readable() + err_.readable();
  const std::uint64_t whole = limits_.inline_bytes.count;
  if (captured.total <= whole && captured.total == stored) {
    captured.text = read_all(0, whole);
    return captured;
  }
  captured.truncated = true;
  const std::uint64_t half = whole / 2;
  captured.text = read_all(0, std::min(half, stored));
  // Beyond what is stored the order is not known: the newest of each stream.
  std::string tail = err_.tail() + out_.tail();
  if (tail.size() > half) tail.erase(0, tail.size() - half);
  const std::uint64_t more = std::min(half - tail.size(), stored - captured.text.size());
  tail.insert(0, read_all(stored - more, more));
  captured.text += gap_line(captured.total - captured.text.size() - tail.size()) + tail;
  return captured;
}

void Output::remove_files(const std::string& path) {
  for (const char* ending : {".out", ".err", ".order", ".out.total", ".err.total"}) {
    ::unlink((path + ending).c_str());
  }
}

}  // namespace tb::box
