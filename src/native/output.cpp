// SPDX-License-Identifier: Apache-2.0
#include "native/output.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <utility>

#include "base/codec.h"

namespace tb::native {
namespace {

constexpr std::size_t kMove = 1 << 20;   // bytes a splice moves at most: the largest pipe
constexpr std::size_t kFeed = 16 << 10;  // from a terminal, which holds 4 KiB as a rule
constexpr std::size_t kBusy = 64 << 10;  // in one go: who prints so much wants a wider pipe
constexpr int kWidePipe = 512 << 10;     // 128 of them are all that one user may have
constexpr std::size_t kWorthFinding = 32 << 10;
constexpr int kRounds = 64;                   // of kMove, before what never ends is left alone
constexpr std::size_t kMaxSegments = 100000;  // then the order is told more coarsely

std::string gap_line(std::uint64_t bytes) {
  return "\n[... " + std::to_string(bytes) + " bytes left out ...]\n";
}

}  // namespace

StreamFile::StreamFile(std::string path, const OutputLimits& limits)
    : path_(std::move(path)), limits_(limits) {
  struct stat info{};
  if (::stat(path_.c_str(), &info) == 0) {
    stored_ = total_ = static_cast<std::uint64_t>(info.st_size);
  }
  std::uint64_t told = 0;
  const os::Fd file{::open(total_path().c_str(), O_RDONLY | O_CLOEXEC)};
  if (file && ::pread(file.get(), &told, sizeof told, 0) == sizeof told) {
    total_ = std::max(total_, told);
  }
  // What comes now does not belong right behind what is kept, whatever the limit is today.
  if (total_ > stored_) limits_.stored.count = stored_;
}

// Offsets must mean the same to the next server: what is not kept is counted all the same.
void StreamFile::save_total() const {
  const os::Fd file{::open(total_path().c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
  // A full disk costs the exact count after a restart, nothing else.
  if (file) (void)!::pwrite(file.get(), &total_, sizeof total_, 0);
}

void StreamFile::open_pipe(os::Fd pipe) {
  pipe_ = std::move(pipe);
  at_end_ = false;
  os::set_nonblocking(pipe_);
}

void StreamFile::open_terminal(os::Fd master, os::Fd pipe, os::Fd relay) {
  open_pipe(std::move(pipe));
  terminal_ = std::move(master);
  relay_ = std::move(relay);
  os::set_nonblocking(terminal_);
  os::set_nonblocking(relay_);
}

// Neither a file can be filled from a terminal in one system call, nor can what was read be given
// back; a pipe can. True: there is something in it.
bool StreamFile::feed() {
  const ssize_t n =
      ::splice(terminal_.get(), nullptr, relay_.get(), nullptr, kFeed, SPLICE_F_NONBLOCK);
  if (n > 0) return true;
  // EIO is how a terminal ends.
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) at_end_ = true;
  return false;
}

bool StreamFile::open_file() {
  if (file_) return true;
  os::Fd file{::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!file) return false;
  file_ = std::make_shared<const os::Fd>(std::move(file));
  return true;
}

std::shared_ptr<const os::Fd> StreamFile::opened() const {
  if (file_) return file_;
  const int fd = check(::open(path_.c_str(), O_RDONLY | O_CLOEXEC), "open output");
  return std::make_shared<const os::Fd>(fd);
}

// Fewer and longer turns for a program that prints without end. If its user has too many such
// pipes already, it stays as it is.
void StreamFile::widen_pipe() {
  if (std::exchange(widened_, true) || terminal_) return;
  (void)::fcntl(pipe_.get(), F_SETPIPE_SZ, kWidePipe);
}

// In one system call from the pipe into the file: no moment in which only we have the bytes.
ssize_t StreamFile::move_to_file() {
  const std::size_t room = std::min<std::uint64_t>(limits_.stored.count - stored_, kMove);
  loff_t at = static_cast<loff_t>(stored_);
  if (!file_) {
    // Most commands print nothing on a stream: no file for that.
    pollfd poll{pipe_.get(), POLLIN, 0};
    ::poll(&poll, 1, 0);
    if (!(poll.revents & POLLIN)) {
      errno = EAGAIN;
      return poll.revents & POLLHUP ? 0 : -1;
    }
  }
  if (!open_file()) return -1;
  const ssize_t n = ::splice(pipe_.get(), nullptr, file_->get(), &at, room, SPLICE_F_NONBLOCK);
  if (n > 0) stored_ += static_cast<std::uint64_t>(n);
  return n;
}

// Beyond what is stored only the newest bytes are kept.
ssize_t StreamFile::pass_by() {
  char buffer[64 << 10];
  const ssize_t n = ::read(pipe_.get(), buffer, sizeof buffer);
  if (n <= 0) return n;
  const std::size_t keep = limits_.inline_bytes.count / 2;
  tail_.append(buffer, static_cast<std::size_t>(n));
  if (tail_.size() > 2 * keep) tail_.erase(0, tail_.size() - keep);
  return n;
}

std::uint64_t StreamFile::drain() {
  std::uint64_t moved = 0;
  while (!at_end_ && moved < kMove) {
    const bool full = stored_ >= limits_.stored.count;
    const ssize_t n = full ? pass_by() : move_to_file();
    if (n > 0) {
      moved += static_cast<std::uint64_t>(n);
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (n < 0 && errno == EAGAIN) {
      if (!terminal_ || !feed()) break;
    } else if (n < 0 && !full && errno != EPIPE) {
      limits_.stored.count = stored_;  // no room, no descriptor: go on in memory
    } else {
      at_end_ = true;
    }
  }
  total_ += moved;
  if (moved >= kBusy && !at_end_) widen_pipe();
  if (moved > 0 && total_ > stored_) save_total();
  return moved;
}

std::string StreamFile::read(std::uint64_t offset, std::size_t limit) const {
  if (offset >= stored_) {
    const std::uint64_t begin = total_ - tail_.size();
    return offset >= begin && offset < total_ ? tail_.substr(offset - begin, limit) : std::string{};
  }
  std::string text(std::min<std::uint64_t>(limit, stored_ - offset), '\0');
  const std::shared_ptr<const os::Fd> file = opened();
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::pread(file->get(), text.data() + done, text.size() - done,
                              static_cast<off_t>(offset + done));
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  text.resize(done);
  return text;
}

std::optional<FilePart> StreamFile::find(std::uint64_t offset, std::size_t limit) const {
  if (offset >= stored_) return std::nullopt;
  const std::size_t size = std::min<std::uint64_t>(limit, stored_ - offset);
  if (size < kWorthFinding) return std::nullopt;
  const std::shared_ptr<const os::Fd> file = opened();
  return FilePart{file->get(), offset, size, file};
}

std::uint64_t StreamFile::next_readable(std::uint64_t offset) const {
  return offset < stored_ ? offset : std::max(offset, total_ - tail_.size());
}

Captured StreamFile::captured() const {
  const std::uint64_t whole = limits_.inline_bytes.count;
  Captured captured;
  captured.total = total_;
  if (total_ == 0) return captured;
  if (total_ <= whole && total_ == stored_ + tail_.size()) {
    captured.text = read(0, stored_) + tail_;
    return captured;
  }
  const std::uint64_t half = whole / 2;
  captured.truncated = true;
  captured.text = read(0, half);
  std::string tail = tail_.substr(tail_.size() > half ? tail_.size() - half : 0);
  if (tail.size() < half && stored_ > half) {
    const std::uint64_t more = std::min(half - tail.size(), stored_ - half);
    tail.insert(0, read(stored_ - more, more));
  }
  captured.text += gap_line(total_ - captured.text.size() - tail.size()) + tail;
  return captured;
}

Output::Output(const std::string& path, const OutputLimits& limits)
    : path_(path), limits_(limits), out_(path + ".out", limits), err_(path + ".err", limits) {
  load_order();
}

void Output::open_pipes(os::Fd out, os::Fd err) {
  out_.open_pipe(std::move(out));
  err_.open_pipe(std::move(err));
}

void Output::open_terminal(os::Fd master, os::Fd pipe, os::Fd relay) {
  out_.open_terminal(std::move(master), std::move(pipe), std::move(relay));
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
  const std::uint64_t stored = file.stored();
  file.drain();
  if (file.stored() > stored) note(file.stored() - stored, err);
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
  const std::uint64_t stored = out_.stored() + err_.stored();
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

void Output::make_file(const std::string& path) {
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW;
  // A full disk costs the memory of it after a restart, not the answer.
  const os::Fd made{::open((path + ".out").c_str(), flags, 0600)};
}

void Output::remove_files(const std::string& path) {
  for (const char* ending : {".out", ".err", ".order", ".out.total", ".err.total"}) {
    ::unlink((path + ending).c_str());
  }
}

}  // namespace tb::native
